-- Partitions and children that came to a table after a position, or came back. A catalog
-- has only the lower half of the number of the transaction that attached a part.
WITH RECURSIVE now AS (
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS id
), edge AS NOT MATERIALIZED (
    SELECT i.inhrelid AS part, i.inhparent AS above, NOT pg_visible_in_snapshot(
        greatest(now.id - ((now.id - i.xmin::text::bigint) & 4294967295), 3)::text::xid8,
        CAST(:since AS pg_snapshot)) AS is_new
    FROM pg_inherits i CROSS JOIN now
), tree AS (
    SELECT CAST(CAST(:table AS regclass) AS oid) AS oid, false AS is_new
  UNION
    SELECT e.part, t.is_new OR e.is_new FROM tree t JOIN edge e ON e.above = t.oid
)
SELECT DISTINCT t.oid, n.nspname, c.relname
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE t.is_new
