-- Refuses changes that users may not make to a snapshot's base table, or to a table of a
-- replication group. Before a statement, it refuses all changes that are not Snaptide's
-- own, and those of Snaptide that the table is not open to. After a statement of Snaptide,
-- it refuses changes that a user's trigger made because of it, if nothing would record
-- them, or a function that a check, a default or an index calls, whose lines stand below this
-- function's own in the context; a cascade has the trigger depth of the statement that it is
-- part of, and no such lines. So has what a rule does besides a refresh's statement, but no
-- foreign key inserts, or acts on a table to which no action leads. Changes of a procedure
-- and its triggers are allowed, because the other masters run it too. A refused change of a
-- trigger fails only that transaction, or holds back only that row.
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
DECLARE
    called boolean := false;
    effect boolean := false;
    context text;
BEGIN
    IF current_setting('snaptide.origin', true) <> ''
       AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
        IF TG_WHEN = 'BEFORE' AND {open_to} THEN
            RETURN NULL;
        END IF;
        called := current_setting('snaptide.writing', true) IS NOT DISTINCT FROM 'call';
        GET DIAGNOSTICS context = PG_CONTEXT;
        effect := pg_trigger_depth() > 1
            OR strpos(replace(context, quote_ident({name}), ''), E'\n') > 0
            OR current_setting('snaptide.writing', true) ~ '^[0-9]+$'
               AND current_setting('snaptide.writing', true) <> TG_RELID::text
               AND (TG_OP IN ('INSERT', 'TRUNCATE') OR NOT
        {cascade});
    END IF;
    IF TG_WHEN = 'AFTER' THEN
        IF effect AND NOT called THEN
            RAISE EXCEPTION USING MESSAGE = 'A trigger or check changes ' || TG_RELID::regclass::text
                    || ' because of a change from another site: ' || {message},
                HINT = 'Make the trigger do nothing if snaptide.comes_from() IS NOT NULL.',
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
