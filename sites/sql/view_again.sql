-- The statements that give a view that is made anew what it has beside its query, each
-- with the column that it is about; NULL for the view as a whole.
WITH v AS (
    SELECT c.oid, c.relowner, c.relacl, c.reloptions,
           format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(:view)
), acl AS (
    SELECT v.name, NULL::text AS attname, a.*
    FROM v, aclexplode(v.relacl) a WHERE a.grantee <> v.relowner
    UNION ALL
    SELECT v.name, t.attname::text, a.*
    FROM v JOIN pg_attribute t ON t.attrelid = v.oid AND NOT t.attisdropped,
         aclexplode(t.attacl) a
)
SELECT about, statement FROM (
SELECT attname AS about,
       format('GRANT %s%s ON %s TO %s%s', privilege_type,
              CASE WHEN attname IS NOT NULL THEN format(' (%I)', attname) ELSE '' END, name,
              CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
              CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS statement
FROM acl
UNION ALL
SELECT NULL, format('ALTER VIEW %s SET (%s)', v.name, o) FROM v, unnest(v.reloptions) o
UNION ALL
SELECT t.attname, format('ALTER VIEW %s ALTER %I SET DEFAULT %s', v.name, t.attname,
                         pg_get_expr(d.adbin, d.adrelid))
FROM v JOIN pg_attrdef d ON d.adrelid = v.oid
JOIN pg_attribute t ON t.attrelid = v.oid AND t.attnum = d.adnum
UNION ALL
SELECT t.attname, format('COMMENT ON %s IS %L',
                         CASE WHEN t.attname IS NULL THEN 'VIEW ' || v.name
                              ELSE format('COLUMN %s.%I', v.name, t.attname) END, d.description)
FROM v JOIN pg_description d ON d.objoid = v.oid AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_attribute t ON t.attrelid = v.oid AND t.attnum = d.objsubid AND d.objsubid > 0
UNION ALL
SELECT NULL, format('ALTER VIEW %s OWNER TO %s', v.name, v.relowner::regrole)
FROM v WHERE v.relowner <> current_user::regrole
) AS had
-- Only the owner can do the rest.
ORDER BY statement LIKE 'ALTER VIEW % OWNER TO %'
