-- Whether a table and the one with the log have the log's partition columns, as they were
-- when these were declared. By their numbers, too: a column may take the name of another.
CREATE OR REPLACE FUNCTION {function}(logged regclass, parted text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $snaptide$
    SELECT cardinality(parted) = (
        SELECT count(*) FROM pg_attribute a
        WHERE a.attrelid = logged AND a.attname = ANY (parted)
          AND (a.attname, format_type(a.atttypid, NULL), a.attcollation) IN ({kinds}))
    AND cardinality(parted) = (
        SELECT count(*) FROM pg_attribute a
        WHERE a.attrelid = {table}::regclass AND a.attname = ANY (parted)
          AND (a.attname, a.attnum) IN ({numbers}))
$snaptide$
