-- Primary key, unique constraints and unique indexes of a table (whole-row
-- indexes on plain columns only), the primary key first.
SELECT ic.relname AS name,
       i.indisprimary AS primary,
       COALESCE(c.condeferrable, false) AS deferrable,
       COALESCE(c.condeferred, false) AS deferred,
       i.indnullsnotdistinct AS nulls_not_distinct,
       ARRAY(SELECT a.attname::text
             FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE k.n <= i.indnkeyatts ORDER BY k.n) AS columns
FROM pg_index i
JOIN pg_class ic ON ic.oid = i.indexrelid
LEFT JOIN pg_constraint c ON c.conrelid = i.indrelid -- found by an index, as are few
     AND c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
WHERE i.indrelid = described.oid
  AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC, ic.relname
