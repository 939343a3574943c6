-- Function: referred_columns.sql
--      The columns of a table that foreign keys refer to.
-- Parameters:
--      oid: the table
-- Returns:
--      one name per row
-- Tables directly manipulated:
--      none
SELECT DISTINCT column_.attname::text AS name
FROM pg_constraint AS key
JOIN pg_attribute AS column_
    ON column_.attrelid = key.confrelid AND column_.attnum = ANY (key.confkey)
WHERE key.contype = 'f' AND CAST(:oid AS oid) IN (key.confrelid, pg_partition_root(key.confrelid))
