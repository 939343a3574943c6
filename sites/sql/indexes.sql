-- Secondary indexes of a table over plain columns, whole-row and not unique, with
-- all that is needed to build the same index elsewhere.
SELECT ic.relname AS name,
       am.amname AS method,
       ARRAY(SELECT a.attname::text
             FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             ORDER BY k.n) AS columns,
       i.indnkeyatts::int AS key_columns,
       ARRAY(SELECT quote_ident(n.nspname) || '.' || quote_ident(o.opcname)
             FROM unnest(i.indclass::oid[]) WITH ORDINALITY k(oid, n)
             JOIN pg_opclass o ON o.oid = k.oid
             JOIN pg_namespace n ON n.oid = o.opcnamespace
             ORDER BY k.n) AS classes,
       ARRAY(SELECT COALESCE(quote_ident(n.nspname) || '.' || quote_ident(c.collname), '')
             FROM unnest(i.indcollation::oid[]) WITH ORDINALITY k(oid, n)
             LEFT JOIN pg_collation c ON c.oid = k.oid
             LEFT JOIN pg_namespace n ON n.oid = c.collnamespace
             ORDER BY k.n) AS collations,
       ARRAY(SELECT k.option::int FROM unnest(i.indoption::int2[]) WITH ORDINALITY k(option, n)
             ORDER BY k.n) AS options,
       i.indpred IS NOT NULL OR i.indexprs IS NOT NULL AS special
FROM pg_index i
JOIN pg_class ic ON ic.oid = i.indexrelid
JOIN pg_am am ON am.oid = ic.relam
WHERE i.indrelid = CAST(:oid AS oid) AND i.indisvalid
  AND (NOT i.indisunique OR i.indpred IS NOT NULL OR i.indexprs IS NOT NULL)
ORDER BY ic.relname
