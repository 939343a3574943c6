-- Foreign keys between some tables and others, which are checked at once unless somebody
-- asks for later. Those of one name are put off together: none that these tables have
-- between them, which they need.
WITH reference AS (
    SELECT c.connamespace, c.conname,
           c.conrelid = ANY (CAST(:oids AS oid[]))
             AND c.confrelid = ANY (CAST(:oids AS oid[])) AS inside,
           c.condeferred
    FROM pg_constraint c
    WHERE c.contype = 'f' AND c.condeferrable
      AND (c.conrelid = ANY (CAST(:oids AS oid[])) OR c.confrelid = ANY (CAST(:oids AS oid[])))
)
SELECT n.nspname AS schema, r.conname AS name
FROM reference r JOIN pg_namespace n ON n.oid = r.connamespace
GROUP BY n.nspname, r.conname
HAVING NOT bool_or(r.inside OR r.condeferred)
