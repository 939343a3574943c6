-- Refuses what users may not do to a snapshot's base table, or a table of a replication
-- group. Snaptide's own merge may, as may cascades and triggers below it; of pushes those
-- that the table is open to.
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
BEGIN
    IF current_setting('snaptide.origin', true) <> ''
       AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') AND {open_to} THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING MESSAGE = {message}, HINT = {hint},
        ERRCODE = {state};
END
$snaptide$
