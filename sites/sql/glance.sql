-- The facts about several tables that show whether they have changed.
WITH parent AS (
    SELECT c.oid
    FROM unnest(CAST(:parent_schemas AS text[]), CAST(:parent_names AS text[]))
         AS wanted (schema, name)
    JOIN pg_namespace n ON n.nspname = wanted.schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name
)
SELECT wanted.schema,
       wanted.name,
       (row_security_active(c.oid) AND COALESCE((
               -- Those of a publication divide the table: they hide nothing that its
               -- sites are to have. Without any, PostgreSQL hides every row.
               SELECT bool_or(NOT starts_with(p.polname, 'snaptide$')) FROM pg_policy p
               WHERE p.polrelid = c.oid), true)) AS hides_rows,
       CASE WHEN c.relkind <> 'p' AND NOT c.relhassubclass THEN c.oid END AS alone,
       CASE WHEN c.relpersistence = 'p'
             AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
            THEN c.relfilenode ELSE 0 END AS file,
       (SELECT jsonb_object_agg(a.attname, {state}) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       ARRAY(SELECT f.conname::text FROM pg_constraint f
             WHERE f.conrelid = c.oid AND f.contype = 'f' AND f.conparentid = 0
               AND f.confrelid IN (SELECT oid FROM parent)) AS "references",
       ARRAY(SELECT f.conname::text FROM pg_constraint f
             WHERE f.conrelid = c.oid AND f.contype = 'f' AND f.conparentid = 0
               AND f.confrelid IN (SELECT oid FROM parent) AND f.convalidated
               AND to_jsonb(f) ->> 'conperiod' IS DISTINCT FROM 'true') AS always
FROM unnest(CAST(:schemas AS text[]), CAST(:names AS text[])) AS wanted (schema, name)
JOIN pg_namespace n ON n.nspname = wanted.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name
