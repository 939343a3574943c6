-- Foreign keys of a table: the tables that it refers to, and what a change there does here.
SELECT c.conname AS name,
       pn.nspname AS parent_schema,
       pc.relname AS parent_table,
       c.condeferrable AS deferrable,
       c.condeferred AS deferred,
       c.convalidated AND to_jsonb(c) ->> 'conperiod' IS DISTINCT FROM 'true' AS always,
       COALESCE(to_jsonb(c) ->> 'conperiod' = 'true', false) AS period,
       c.confdeltype AS on_delete,
       c.confupdtype AS on_update,
       ARRAY(SELECT a.attname::text FROM unnest(c.confdelsetcols) WITH ORDINALITY k(attnum, n)
             JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum
             ORDER BY k.n) AS delete_columns,
       ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(attnum, n)
             JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum
             ORDER BY k.n) AS columns,
       ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k(attnum, n)
             JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum
             ORDER BY k.n) AS parent_columns
FROM pg_constraint c
JOIN pg_class pc ON pc.oid = c.confrelid
JOIN pg_namespace pn ON pn.oid = pc.relnamespace
WHERE c.conrelid = described.oid AND c.contype = 'f' AND c.conparentid = 0
ORDER BY c.conname
