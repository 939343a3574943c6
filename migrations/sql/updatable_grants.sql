-- What the policies of publications ask of the login that pushes. As in publications.sql, they
-- run with the rights of their owner, and ask for SESSION_USER.
-- Tables directly manipulated: none.
-- The ids of the site whose login it is. The site says itself which they are, when it makes
-- contact: one that another site has used, or this database, is none of them.
CREATE FUNCTION snaptide.granted_origins() RETURNS uuid[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT COALESCE(array_agg(p.site_id), '{}') FROM snaptide.peer p
    WHERE p.role = 'site' AND p.name = snaptide.granted_site()
      AND NOT EXISTS (SELECT FROM snaptide.push_marker m
                      WHERE m.origin_id = p.site_id AND m.origin <> p.name)
      AND NOT EXISTS (SELECT FROM snaptide.peer m
                      WHERE m.site_id = p.site_id AND m.name <> p.name)
      AND NOT EXISTS (SELECT FROM snaptide.site_identity i WHERE i.site_id = p.site_id)
$$;
-- Whether the login may change the rows of a publication that it reads.
CREATE FUNCTION snaptide.may_change(asked int) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM snaptide.publication_grant g
                   WHERE g.publication_id = asked AND g.login = session_user AND g.updatable)
$$;
-- The login, if publications are granted to it; NULL for all others.
CREATE FUNCTION snaptide.bound_login() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT min(g.login) FROM snaptide.publication_grant g WHERE g.login = session_user
$$;
-- Whether what is said of the columns of a parked transaction has the form that it should
-- have, and each type is one of this database, and no temporary one: statements of operators
-- name them, too. A type may be gone, as that of a dropped column often is, or never have been
-- here; it is a plain name then.
CREATE FUNCTION snaptide.known_types(target_columns jsonb) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT COALESCE(bool_and(COALESCE(
        EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE c.oid::text = its.value ->> 'oid'
                  AND snaptide.is_granted(n.nspname, c.relname)
                  AND its.name = (
                      SELECT string_agg(CASE WHEN part ~ '[."]'
                                             THEN '"' || replace(part, '"', '""') || '"'
                                             ELSE part END, '.' ORDER BY place)
                      FROM unnest(ARRAY[n.nspname, c.relname]::text[])
                           WITH ORDINALITY AS named (part, place)
                      WHERE place = 2 OR part <> 'public'))
        AND jsonb_typeof(its.value -> 'numbers') = 'object'
        AND jsonb_typeof(its.value -> 'types') = 'object'
        AND NOT EXISTS (SELECT FROM jsonb_each(its.value -> 'numbers') AS n
                        WHERE jsonb_typeof(n.value) <> 'number'
                           OR NOT (its.value -> 'types') ? n.key)
        AND NOT EXISTS (
            SELECT FROM jsonb_each_text(its.value -> 'types') AS named (name, type)
            WHERE CASE WHEN to_regtype(named.type) IS NULL THEN named.type !~
                           '^(?!"?pg_)("[^"]+"|[a-z_][a-z0-9_]*)\.("[^"]+"|[a-z_][a-z0-9_]*)(\[\])?$'
                  ELSE position('--' IN named.type) > 0 OR position('/*' IN named.type) > 0
                       OR NOT EXISTS (
                           SELECT FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
                           WHERE t.oid = to_regtype(named.type)
                             AND n.nspname !~ '^pg_(toast_)?temp_')
                  END), false)), true)
    FROM jsonb_each(COALESCE(target_columns, '{}')) AS its (name, value)
$$;
