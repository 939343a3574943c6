-- The dependencies of a table's defaults and generation expressions: other columns of
-- the table, and whether they need anything that another database may lack (built-in
-- functions leave no trace in pg_depend; types are looked up by name anyway).
SELECT ad.adnum::int AS number,
       COALESCE(bool_or(d.refobjid IS NOT NULL AND d.refclassid <> 'pg_type'::regclass
                        AND NOT (d.refclassid = 'pg_class'::regclass
                                 AND d.refobjid = ad.adrelid)), false) AS foreign,
       COALESCE(array_agg(DISTINCT a.attname::text)
                FILTER (WHERE a.attnum IS NOT NULL AND a.attnum <> ad.adnum), '{}') AS inputs
FROM pg_attrdef ad
LEFT JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = ad.oid
LEFT JOIN pg_attribute a ON d.refclassid = 'pg_class'::regclass
     AND a.attrelid = d.refobjid AND a.attrelid = ad.adrelid AND a.attnum = d.refobjsubid
WHERE ad.adrelid = CAST(:oid AS oid)
GROUP BY ad.adnum
