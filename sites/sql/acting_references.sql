-- Columns of some tables through which a delete or a change reaches rows that refer to
-- them, because a foreign key cascades, or sets NULL or the default.
SELECT c.confrelid AS oid,
       array_agg(DISTINCT a.attname::text) AS columns
FROM pg_constraint c
CROSS JOIN unnest(c.confkey) k(attnum)
JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum
WHERE c.confrelid = ANY (CAST(:oids AS oid[])) AND c.contype = 'f'
  AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
GROUP BY c.confrelid
