-- Triggers of ours on some tables that call another recording function than the given one.
SELECT n.nspname AS schema, c.relname AS name, p.proname AS function
FROM unnest(CAST(:schemas AS text[]), CAST(:names AS text[])) AS part (schema, name)
JOIN pg_namespace n ON n.nspname = part.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = part.name
JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = :trigger
JOIN pg_proc p ON p.oid = t.tgfoid AND p.proname <> :function
