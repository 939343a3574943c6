-- Columns of some tables through which a delete or a change reaches rows that refer to
-- them, because a foreign key cascades, or sets NULL or the default. It may refer to a
-- partition of such a table.
SELECT t.oid, array_agg(DISTINCT a.attname::text) AS columns
FROM unnest(CAST(:oids AS oid[])) t(oid)
JOIN pg_constraint c ON t.oid IN (c.confrelid, pg_partition_root(c.confrelid))
CROSS JOIN unnest(c.confkey) k(attnum)
JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum
WHERE c.contype = 'f'
  AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
GROUP BY t.oid
