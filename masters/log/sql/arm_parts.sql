-- Gives new partitions and inheritance children of a master table the triggers of its
-- snapshot log, in the statement that creates or attaches them: PostgreSQL itself gives
-- them row triggers only.
-- Looks only at the tables that the statement is about, at those above them and those
-- below: a statement about other tables costs a look into two catalogs.
-- A part gets triggers only if it has none of them, and came in this very transaction. If
-- triggers of another part are gone or off, nobody knows what was changed meanwhile: the
-- next refresh finds that out, so it stays as it is.
-- A catalog has only the lower half of a transaction's number. What this transaction has
-- written has its number or a later one, of a subtransaction, and has not ended.
-- Runs with the rights of the user who runs the statement, and owns the part: it reads
-- catalogs and creates triggers, and runs nothing that somebody else has written. If it
-- fails, the statement does not, and the next refresh does what is left to do.
-- Tables directly manipulated: none.
CREATE FUNCTION {function}() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = {moment}
AS $snaptide$
DECLARE
    this bigint := pg_current_xact_id()::text::bigint;
    part record;
    pattern text;
    came boolean;
BEGIN
    -- The statements below end here, too.
    IF current_setting('snaptide.arming', true) = 'on' THEN
        RETURN;
    END IF;
    FOR part IN
        WITH RECURSIVE edge AS NOT MATERIALIZED (
            SELECT i.inhrelid AS below, i.inhparent AS above,
                   this + ((i.xmin::text::bigint - this + 2147483648) & 4294967295)
                        - 2147483648 AS since
            FROM pg_inherits i
        ), up AS (
            SELECT c.objid AS touched, c.objid AS oid, 0::bigint AS since
            FROM pg_event_trigger_ddl_commands() c
            WHERE c.classid = 'pg_class'::regclass
          UNION
            SELECT u.touched, e.above, greatest(u.since, e.since)
            FROM up u JOIN edge e ON e.below = u.oid
        ), tree AS (
            SELECT u.touched AS oid, p.oid AS function, p.proname AS name, u.since
            FROM up u
            JOIN pg_trigger g ON g.tgrelid = u.oid AND g.tgname = {trigger}
            JOIN pg_proc p ON p.oid = g.tgfoid
            WHERE p.pronamespace = {schema}::regnamespace
          UNION
            SELECT e.below, t.function, t.name, greatest(t.since, e.since)
            FROM tree t JOIN edge e ON e.above = t.oid
        )
        SELECT t.oid::regclass AS name, t.name AS log, c.relispartition,
               max(t.since) AS since
        FROM tree t JOIN pg_class c ON c.oid = t.oid
        WHERE t.since >= this AND c.relkind IN ('r', 'p') AND NOT EXISTS (
            SELECT FROM pg_trigger g
            WHERE g.tgrelid = t.oid AND g.tgfoid = t.function AND g.tgparentid = 0)
        GROUP BY t.oid, t.name, c.relispartition
    LOOP
        BEGIN
            came := pg_xact_status(part.since::text::xid8) = 'in progress';
        EXCEPTION WHEN invalid_parameter_value THEN
            -- It is a number of before the numbers began again.
            came := false;
        END;
        CONTINUE WHEN NOT came;
        PERFORM set_config('snaptide.arming', 'on', true);
        FOREACH pattern IN ARRAY {patterns} LOOP
            EXECUTE format(pattern, part.name, part.log);
        END LOOP;
        IF NOT part.relispartition THEN
            FOREACH pattern IN ARRAY {patterns_of_children} LOOP
                EXECUTE format(pattern, part.name, part.log);
            END LOOP;
        END IF;
        PERFORM set_config('snaptide.arming', '', true);
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'Snaptide''s triggers on new parts of a table could not be created: %',
        SQLERRM
        USING HINT = 'The next refresh of a snapshot of the table creates them, and '
            'compares all rows of the parts.';
END
$snaptide$
