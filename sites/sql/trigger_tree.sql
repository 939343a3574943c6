-- A table with all its partitions and inheritance children: triggers on a
-- parent do not see statements that name a child directly. Row triggers are cloned
-- to partitions, and only to them.
WITH RECURSIVE tree AS (
    SELECT CAST(:oid AS oid) AS oid
  UNION
    SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON t.oid = i.inhparent
)
SELECT n.nspname, c.relname,
       c.relispartition AND c.oid <> CAST(:oid AS oid) AS cloned
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
