-- A table with a given name, and all that is known of it, in one round trip.
SELECT described.oid, described.relkind AS kind,
       row_security_active(described.oid) AS hides_rows,
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
