-- Refuses what users may not do to a snapshot's base table, or a table of a replication
-- group: before a statement all that is not Snaptide's own, and of that what the table is
-- not open to; after it what a trigger of yours does because of such a statement, where
-- nobody would record it. There a cascade is as deep as the statement that it is part of.
-- What a procedure does here, with its triggers, the other masters do too. What a trigger
-- of yours would change is the trouble of that transaction, or row, alone.
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
DECLARE
    called boolean := false;
    effect boolean := false;
BEGIN
    IF current_setting('snaptide.origin', true) <> ''
       AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
        IF TG_WHEN = 'BEFORE' AND {open_to} THEN
            RETURN NULL;
        END IF;
        called := current_setting('snaptide.writing', true) IS NOT DISTINCT FROM 'call';
        effect := pg_trigger_depth() > 1;
    END IF;
    IF TG_WHEN = 'AFTER' THEN
        IF effect AND NOT called THEN
            RAISE EXCEPTION USING MESSAGE = 'A trigger changes ' || TG_RELID::regclass::text
                    || ' because of a change that was made elsewhere: ' || {message},
                HINT = 'Let the trigger do nothing where snaptide.comes_from() IS NOT NULL.',
                ERRCODE = 'raise_exception';
        END IF;
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING MESSAGE = {message}, HINT = {hint},
        ERRCODE = CASE WHEN {passes} THEN 'object_in_use'
                       WHEN effect OR called THEN 'raise_exception'
                       ELSE 'object_not_in_prerequisite_state' END;
END
$snaptide$
