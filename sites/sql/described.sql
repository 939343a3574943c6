-- A table with a given name, and all that is known of it, in one round trip; without what is
-- long if the state of it is still the one that the caller knows.
WITH described AS MATERIALIZED (
    SELECT described.oid, described.relkind AS kind,
           (row_security_active(described.oid) AND COALESCE((
               -- Those of a publication divide the table: they hide nothing that its
               -- sites are to have. Without any, PostgreSQL hides every row.
               SELECT bool_or(NOT starts_with(p.polname, 'snaptide$')) FROM pg_policy p
               WHERE p.polrelid = described.oid), true)) AS hides_rows,
           row_security_active(described.oid) AS divided,
           (SELECT r.rulename::text FROM pg_rewrite r
            WHERE r.ev_class = described.oid AND r.ev_type <> '1' AND r.is_instead
              AND r.ev_qual::text = '<>' ORDER BY 1 LIMIT 1) AS instead,
           (SELECT json_agg(part) FROM (
{columns}
           ) part) AS columns,
           (SELECT json_agg(part) FROM (
{constraints}
           ) part) AS uniques,
           (SELECT json_agg(part) FROM (
{foreign_keys}
           ) part) AS foreign_keys
    FROM pg_class described
    JOIN pg_namespace n ON n.oid = described.relnamespace
    WHERE n.nspname = :schema AND described.relname = :name
      AND described.relkind IN ('r', 'p', 'v', 'f', 'm')
),
printed AS MATERIALIZED (SELECT described::text AS line FROM described),
-- Not md5(), which a server in FIPS mode refuses.
hashed AS MATERIALIZED (
    SELECT concat_ws(' ', hashtextextended(line, 0), hashtextextended(line, 1)) AS state
    FROM printed
)
SELECT oid, kind, hides_rows, divided, instead, state,
       CASE WHEN state IS DISTINCT FROM :known THEN columns END AS columns,
       CASE WHEN state IS DISTINCT FROM :known THEN uniques END AS uniques,
       CASE WHEN state IS DISTINCT FROM :known THEN foreign_keys END AS foreign_keys
FROM described, hashed
