-- The sequences that the columns of a table draw from: those of identity columns, and
-- those that a default names.
SELECT DISTINCT n.nspname, c.relname
FROM pg_depend p
LEFT JOIN pg_attrdef d ON p.classid = 'pg_attrdef'::regclass AND d.oid = p.objid
JOIN pg_class c ON c.relkind = 'S' AND c.oid = CASE WHEN d.oid IS NULL THEN p.objid ELSE p.refobjid END
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.refclassid = 'pg_class'::regclass
  AND ((p.deptype = 'i' AND p.classid = 'pg_class'::regclass AND p.refobjid = to_regclass(:table))
       OR d.adrelid = to_regclass(:table))
ORDER BY 1, 2
