-- Foreign keys that refer to some tables, with their actions when a row there is deleted
-- or changed. Keys of partitions are covered by the key of the partitioned table. A key
-- may refer to a partition of such a table, or to a table of which it is a partition.
SELECT t.oid::bigint AS parent,
       c.conname AS name,
       c.conrelid::bigint AS child,
       n.nspname AS schema,
       r.relname AS table,
       w.oid::bigint AS whole,
       wn.nspname AS whole_schema,
       w.relname AS whole_table,
       c.confdeltype AS on_delete,
       c.confupdtype AS on_update,
       ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(attnum, place)
             JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum
             ORDER BY k.place) AS columns,
       ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k(attnum, place)
             JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum
             ORDER BY k.place) AS parent_columns
FROM unnest(CAST(:oids AS oid[])) t(oid)
JOIN pg_constraint c
  ON c.confrelid = t.oid
  OR EXISTS (SELECT FROM pg_partition_ancestors(c.confrelid) a(oid) WHERE a.oid = t.oid)
  OR EXISTS (SELECT FROM pg_partition_ancestors(t.oid) a(oid) WHERE a.oid = c.confrelid)
JOIN pg_class r ON r.oid = c.conrelid
JOIN pg_namespace n ON n.oid = r.relnamespace
JOIN pg_class w ON w.oid = COALESCE(pg_partition_root(c.conrelid), c.conrelid)
JOIN pg_namespace wn ON wn.oid = w.relnamespace
WHERE c.contype = 'f' AND c.conparentid = 0
ORDER BY t.oid, n.nspname, r.relname, c.conname
