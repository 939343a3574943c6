-- Checks, exclusion constraints and triggers of users, which act only in the database of
-- the table itself.
SELECT CASE c.contype WHEN 'c' THEN 'check' ELSE 'exclusion constraint' END AS kind,
       c.conname AS name, pg_get_constraintdef(c.oid) AS text
FROM pg_constraint c
WHERE c.conrelid = CAST(:oid AS oid) AND c.contype IN ('c', 'x')
UNION ALL
SELECT 'trigger', t.tgname, p.oid::regproc::text
FROM pg_trigger t
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = CAST(:oid AS oid) AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
  AND p.pronamespace <> 'snaptide'::regnamespace
ORDER BY 1, 2
