-- Columns of a table, in their order, with what Snaptide must know of each.
-- "comparable": IS DISTINCT FROM works on the type, or on the domain's base type.
WITH RECURSIVE base AS (
    SELECT a.attnum, t.oid, t.typtype, t.typbasetype, t.typtypmod,
           a.atttypmod AS modifier
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = CAST(:oid AS oid) AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
    SELECT b.attnum, t.oid, t.typtype, t.typbasetype, t.typtypmod, b.typtypmod
    FROM base b JOIN pg_type t ON t.oid = b.typbasetype
    WHERE b.typtype = 'd'
)
SELECT a.attname AS name,
       a.attnum AS number,
       format_type(a.atttypid, a.atttypmod) AS type,
       format_type(b.oid, b.modifier) AS recorded,
       NOT a.attnotnull AS nullable,
       pg_get_expr(d.adbin, d.adrelid) AS default,
       a.attgenerated AS generated,
       a.attidentity AS identity,
       CASE WHEN co.collname IS NOT NULL AND a.attcollation <> ty.typcollation
            THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END AS collation,
       b.typtype IN ('e', 'r', 'm')
         OR EXISTS (SELECT FROM pg_opclass o
                    WHERE o.opcintype = b.oid AND o.opcdefault AND o.opcmethod IN (403, 405))
         OR format_type(b.oid, NULL) = 'character varying' AS comparable
FROM pg_attribute a
JOIN pg_type ty ON ty.oid = a.atttypid
JOIN base b ON b.attnum = a.attnum AND b.typtype <> 'd'
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = CAST(:oid AS oid) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
