-- Foreign keys between some tables and others, which are checked at once unless somebody
-- asks for later.
SELECT n.nspname AS schema, c.conname AS name
FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
WHERE c.contype = 'f' AND c.condeferrable AND NOT c.condeferred
  AND (c.conrelid = ANY (CAST(:oids AS oid[]))) <> (c.confrelid = ANY (CAST(:oids AS oid[])))
