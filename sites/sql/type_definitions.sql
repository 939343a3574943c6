-- The types and collations that columns of a table use, each with its definition, and
-- all that these use in turn. Types of pg_catalog are the same everywhere and are left
-- out, except those whose values cannot be read from text.
WITH RECURSIVE used AS (
    SELECT a.atttypid AS oid FROM pg_attribute a
    WHERE a.attrelid = CAST(:oid AS oid) AND a.attname = ANY (:columns)
  UNION
    SELECT p.oid
    FROM used u
    JOIN pg_type t ON t.oid = u.oid
    CROSS JOIN LATERAL (
        SELECT t.typelem WHERE t.typcategory = 'A'
      UNION ALL
        SELECT t.typbasetype WHERE t.typtype = 'd'
      UNION ALL
        SELECT a.atttypid FROM pg_attribute a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0
          AND NOT a.attisdropped
      UNION ALL
        SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
    ) p (oid)
), collated AS (
    SELECT a.attcollation AS oid FROM pg_attribute a
    WHERE a.attrelid = CAST(:oid AS oid) AND a.attname = ANY (:columns)
  UNION
    SELECT t.typcollation FROM used u JOIN pg_type t ON t.oid = u.oid
)
SELECT format_type(t.oid, NULL) AS name,
       CASE t.typtype WHEN 'e' THEN 'labels' WHEN 'd' THEN 'domain over'
            WHEN 'c' THEN 'attributes' WHEN 'r' THEN 'range of' ELSE 'base type of' END
       || ' ' || CASE t.typtype
           WHEN 'e' THEN (
               SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
               FROM pg_enum e WHERE e.enumtypid = t.oid)
           WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
               || CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END
               || COALESCE((
                   SELECT string_agg(' ' || pg_get_constraintdef(c.oid), ''
                                     ORDER BY pg_get_constraintdef(c.oid))
                   FROM pg_constraint c WHERE c.contypid = t.oid AND c.contype = 'c'), '')
           WHEN 'c' THEN (
               SELECT string_agg(quote_ident(a.attname) || ' '
                                 || format_type(a.atttypid, a.atttypmod), ', '
                                 ORDER BY a.attnum)
               FROM pg_attribute a
               WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
           WHEN 'r' THEN (
               SELECT format_type(r.rngsubtype, NULL) FROM pg_range r
               WHERE r.rngtypid = t.oid)
           ELSE COALESCE((
               SELECT 'extension ' || e.extname FROM pg_depend d
               JOIN pg_extension e ON e.oid = d.refobjid
               WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid
                 AND d.refclassid = 'pg_extension'::regclass), 'its own')
       END AS definition,
       NULL AS version
FROM used u
JOIN pg_type t ON t.oid = u.oid
JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE (n.nspname <> 'pg_catalog' OR t.typname = ANY (:unreadable))
  AND t.typcategory <> 'A' AND t.typtype <> 'm'
UNION ALL
SELECT 'collation ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname),
       concat_ws(' ', 'of provider', c.collprovider,
                 CASE WHEN NOT c.collisdeterministic THEN 'nondeterministic' END,
                 c.collcollate, c.collctype,
                 to_jsonb(c) ->> 'colliculocale', to_jsonb(c) ->> 'colllocale'),
       pg_collation_actual_version(c.oid)
FROM collated u
JOIN pg_collation c ON c.oid = u.oid
JOIN pg_namespace n ON n.oid = c.collnamespace
WHERE c.collprovider <> 'd'
ORDER BY 1
