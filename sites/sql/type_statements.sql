-- The types of users that columns or other types need, each with a statement that creates
-- it, those first that others need. A type of an extension needs the extension. Nothing
-- can be said of base types, of types with functions of their own, and of a table's rows.
WITH RECURSIVE asked AS (
    SELECT a.atttypid AS oid FROM pg_attribute a
    WHERE a.attrelid = CAST(:table AS oid) AND a.attname = ANY (:columns)
  UNION
    SELECT CAST(to_regtype(n) AS oid) FROM unnest(CAST(:types AS text[])) n
), used (oid, depth) AS (
    SELECT oid, 0 FROM asked WHERE oid IS NOT NULL
  UNION
    SELECT p.oid, u.depth + 1
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
        SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid
      UNION ALL
        SELECT r.rngtypid FROM pg_range r WHERE r.rngmultitypid = t.oid
    ) p (oid)
), deepest AS (
    SELECT oid, max(depth) AS depth FROM used GROUP BY oid
)
SELECT format_type(t.oid, NULL) AS name,
       n.nspname::text AS schema,
       CASE
           WHEN e.extname IS NOT NULL THEN
               format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA %I', e.extname, n.nspname)
           WHEN t.typtype = 'e' THEN
               format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname, (
                   SELECT string_agg(quote_literal(l.enumlabel), ', '
                                     ORDER BY l.enumsortorder)
                   FROM pg_enum l WHERE l.enumtypid = t.oid))
           WHEN t.typtype = 'd' THEN
               format('CREATE DOMAIN %I.%I AS %s', n.nspname, t.typname,
                      format_type(t.typbasetype, t.typtypmod))
               || COALESCE((
                   SELECT format(' COLLATE %I.%I', cn.nspname, c.collname)
                   FROM pg_collation c
                   JOIN pg_namespace cn ON cn.oid = c.collnamespace
                   JOIN pg_type b ON b.oid = t.typbasetype
                   WHERE c.oid = t.typcollation AND c.oid <> b.typcollation), '')
               || COALESCE(' DEFAULT ' || pg_get_expr(t.typdefaultbin, 0), '')
               || CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END
               || COALESCE((
                   SELECT string_agg(
                       format(' CONSTRAINT %I %s', c.conname,
                              regexp_replace(pg_get_constraintdef(c.oid),
                                             ' NOT VALID$', '')),
                       '' ORDER BY pg_get_constraintdef(c.oid))
                   FROM pg_constraint c
                   WHERE c.contypid = t.oid AND c.contype = 'c'), '')
           WHEN t.typtype = 'c' AND r.relkind = 'c' THEN
               format('CREATE TYPE %I.%I AS (%s)', n.nspname, t.typname, (
                   SELECT string_agg(
                       format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod))
                       || COALESCE((
                           SELECT format(' COLLATE %I.%I', cn.nspname, c.collname)
                           FROM pg_collation c
                           JOIN pg_namespace cn ON cn.oid = c.collnamespace
                           JOIN pg_type b ON b.oid = a.atttypid
                           WHERE c.oid = a.attcollation AND c.oid <> b.typcollation), ''),
                       ', ' ORDER BY a.attnum)
                   FROM pg_attribute a
                   WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped))
           WHEN t.typtype = 'r' THEN (
               SELECT format('CREATE TYPE %I.%I AS RANGE (SUBTYPE = %s,'
                             ' MULTIRANGE_TYPE_NAME = %s)',
                             n.nspname, t.typname, format_type(g.rngsubtype, NULL),
                             format_type(g.rngmultitypid, NULL))
               FROM pg_range g
               JOIN pg_opclass o ON o.oid = g.rngsubopc
               WHERE g.rngtypid = t.oid AND o.opcdefault AND g.rngcanonical = 0
                 AND g.rngsubdiff = 0)
       END AS statement
FROM deepest d
JOIN pg_type t ON t.oid = d.oid
JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_class r ON r.oid = t.typrelid
LEFT JOIN pg_depend p ON p.classid = 'pg_type'::regclass AND p.objid = t.oid
                     AND p.refclassid = 'pg_extension'::regclass AND p.deptype = 'e'
LEFT JOIN pg_extension e ON e.oid = p.refobjid
WHERE n.nspname <> 'pg_catalog' AND t.typcategory <> 'A' AND t.typtype <> 'm'
ORDER BY d.depth DESC, name
