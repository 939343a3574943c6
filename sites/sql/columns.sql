-- Columns of a table, in their order, with what Snaptide must know of each.
-- For a domain, all of this is about its base type. "comparable": IS DISTINCT FROM works
-- on it; "equality": its operator, if an extension or a user made it; "pairable": a FULL
-- JOIN can pair rows by it; "hashable": its values have hashes of 64 bits; "followed": a foreign key's ON UPDATE changes rows of other
-- tables when it changes; it may refer to a partition.
WITH RECURSIVE base AS (
    SELECT a.attnum, t.oid, t.typtype, t.typbasetype, t.typtypmod,
           a.atttypmod AS modifier
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = described.oid AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
    SELECT b.attnum, t.oid, t.typtype, t.typbasetype, t.typtypmod, b.typtypmod
    FROM base b JOIN pg_type t ON t.oid = b.typbasetype
    WHERE b.typtype = 'd'
)
SELECT a.attname AS name,
       a.attnum AS number,
       {state} AS state,
       format_type(a.atttypid, a.atttypmod) AS type,
       format_type(a.atttypid, NULL) AS plain,
       format_type(b.oid, b.modifier) AS recorded,
       a.attlen::int AS size,
       NOT a.attnotnull AS nullable,
       NOT a.attnotnull OR a.attnum = ANY (ARRAY(
           -- Rows from before a NOT VALID, or of a child below a NO INHERIT, may have it.
           SELECT k.conkey[1] FROM pg_constraint k
           WHERE k.conrelid = described.oid AND k.contype = 'n'
             AND (k.connoinherit OR NOT k.convalidated))) AS holds_null,
       NOT (a.attnotnull OR EXISTS (
           SELECT FROM base d JOIN pg_type dt ON dt.oid = d.oid
           WHERE d.attnum = a.attnum AND dt.typnotnull)) AS takes_null,
       EXISTS (SELECT FROM base d JOIN pg_constraint k ON k.contypid = d.oid
               WHERE d.attnum = a.attnum AND k.contype = 'c') AS checked,
       pg_get_expr(d.adbin, d.adrelid) AS default,
       a.attgenerated AS generated,
       a.attidentity AS identity,
       CASE WHEN co.collname IS NOT NULL AND a.attcollation <> ty.typcollation
            THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END AS collation,
       COALESCE(co.collisdeterministic, true) AS deterministic,
       COALESCE(e.nspname = 'pg_catalog', b.typtype IN ('e', 'r', 'm')
                OR format_type(b.oid, NULL) = 'character varying') AS comparable,
       CASE WHEN e.nspname <> 'pg_catalog'
            THEN quote_ident(e.nspname) || '.' || e.oprname END AS equality,
       COALESCE(e.pairable, true) AS pairable,
       EXISTS (SELECT FROM pg_opclass h
               JOIN pg_amproc f ON f.amprocfamily = h.opcfamily AND f.amprocnum = 2
                    AND (f.amproclefttype, f.amprocrighttype) = (h.opcintype, h.opcintype)
               WHERE h.opcintype = b.oid AND h.opcdefault AND h.opcmethod = 405) AS hashable,
       a.attname = ANY (ARRAY(
           -- Foreign keys to a table are known by their triggers, which an index finds.
           SELECT p.attname FROM pg_trigger g
           JOIN pg_constraint f ON (f.oid, f.confrelid) = (g.tgconstraint, g.tgrelid)
           CROSS JOIN unnest(f.confkey) k(attnum)
           JOIN pg_attribute p ON (p.attrelid, p.attnum) = (f.confrelid, k.attnum)
           WHERE g.tgrelid = ANY (CASE described.relkind
                     WHEN 'p' THEN ARRAY(SELECT relid FROM pg_partition_tree(described.oid))
                     ELSE ARRAY[described.oid::regclass] END)
             AND f.contype = 'f' AND f.confupdtype IN ('c', 'n', 'd'))) AS followed
FROM pg_attribute a
JOIN pg_type ty ON ty.oid = a.atttypid
JOIN base b ON b.attnum = a.attnum AND b.typtype <> 'd'
LEFT JOIN LATERAL (
    SELECT n.nspname, o.oprname, o.oprcanmerge OR o.oprcanhash AS pairable
    FROM pg_opclass c
    JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype
         AND m.amoprighttype = c.opcintype
         AND m.amopstrategy = CASE c.opcmethod WHEN 403 THEN 3 ELSE 1 END
    JOIN pg_operator o ON o.oid = m.amopopr
    JOIN pg_namespace n ON n.oid = o.oprnamespace
    WHERE c.opcintype = b.oid AND c.opcdefault AND c.opcmethod IN (403, 405)
    ORDER BY c.opcmethod LIMIT 1
) e ON true
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = described.oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
