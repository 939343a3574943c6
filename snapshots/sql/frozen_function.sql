-- Refuses changes of frozen rows: they leave the snapshot, and wait for an answer. What a
-- refresh writes is let through, with the actions of foreign keys that are part of it.
-- Key columns are found by their numbers, because they may have been renamed, or else, in a
-- database that was loaded from a dump, by their names.
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
DECLARE
    found text;
    ours boolean := current_setting('snaptide.origin', true) <> ''
        AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER');
BEGIN
    IF (ours AND pg_trigger_depth() = 1
        AND COALESCE(current_setting('snaptide.writing', true), '') ~ '^[0-9]+$')
       OR NOT EXISTS (SELECT FROM {extra} WHERE reason = 'frozen') THEN
        RETURN NULL;
    END IF;
    EXECUTE (
        SELECT format('SELECT concat_ws('', '', %s) FROM snaptide_old AS o WHERE EXISTS ('
                      'SELECT FROM %s AS e WHERE e.reason = ''frozen'' AND %s) LIMIT 1',
                      string_agg(format('o.%I', key.name), ', ' ORDER BY key.place),
                      {extra_name},
                      string_agg(format('e.k%s = o.%I', key.place, key.name), ' AND '))
        FROM (SELECT c.place, COALESCE(a.attname, c.name) AS name
              FROM unnest({numbers}::integer[], {names}::text[]) WITH ORDINALITY
                   AS c (number, name, place)
              LEFT JOIN pg_attribute a
                     ON a.attrelid = {table}::oid AND a.attnum = c.number) AS key
    ) INTO found;
    IF found IS NOT NULL THEN
        RAISE EXCEPTION USING
            MESSAGE = format('Row %s of %s is frozen: it leaves this snapshot', found, {called}),
            HINT = 'It can be read until the master has answered the changes that hold it.'
                   ' snaptide refresh shows what they are.',
            ERRCODE = CASE WHEN ours THEN 'raise_exception'
                           ELSE 'object_not_in_prerequisite_state' END;
    END IF;
    RETURN NULL;
END
$snaptide$
