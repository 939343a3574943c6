-- Foreign keys between some tables and others that are checked at once unless a session
-- defers them. SET CONSTRAINTS defers all keys of one name, so names that keys between
-- these tables have are left out: those keys are needed.
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
