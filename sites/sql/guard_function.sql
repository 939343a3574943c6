-- Refuses what users may not do to a snapshot's base table, or a table of a replication
-- group. Snaptide's own merge may, as may cascades and triggers below it; of pushes those
-- that the table is open to. What a trigger of yours would change here in answer to a push
-- is the trouble of that transaction alone.
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
DECLARE
    effect boolean := false;
BEGIN
    IF current_setting('snaptide.origin', true) <> ''
       AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
        IF {open_to} THEN
            RETURN NULL;
        END IF;
        effect := {alone};
    END IF;
    RAISE EXCEPTION USING MESSAGE = {message}, HINT = {hint},
        ERRCODE = CASE WHEN effect THEN 'raise_exception' ELSE {state} END;
END
$snaptide$
