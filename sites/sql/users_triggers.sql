-- The triggers of users on a table, its partitions and inheritance children that fire
-- for every write, by name. One that fires before a row is written may change its values.
WITH RECURSIVE tree AS (
    SELECT r.oid FROM pg_class r JOIN pg_namespace s ON s.oid = r.relnamespace
    WHERE s.nspname = :schema AND r.relname = :name
  UNION
    SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON t.oid = i.inhparent
)
SELECT n.nspname, c.relname, g.tgname, g.tgenabled = 'A' AS always,
       (g.tgtype::int & 3) = 3 AND (g.tgtype::int & 20) <> 0 AS sets_values
FROM tree t
JOIN pg_class c ON c.oid = t.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_trigger g ON g.tgrelid = t.oid
JOIN pg_proc p ON p.oid = g.tgfoid
WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A')
  AND p.pronamespace <> COALESCE(to_regnamespace('snaptide'), 0)
ORDER BY n.nspname, c.relname, g.tgname
