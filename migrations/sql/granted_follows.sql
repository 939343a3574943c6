-- The tables that are granted to the login that asks, each with the foreign keys that its
-- rows follow, so that its site has snapshots which follow them, too; NULL for any other
-- login. As in publications.sql, it runs with the rights of its owner, and asks for
-- SESSION_USER.
-- Tables directly manipulated: none.
CREATE FUNCTION snaptide.granted_follows() RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_agg(jsonb_build_object(
        'table', jsonb_build_array(t.table_schema, t.table_name), 'follows', t.follows))
    FROM snaptide.publication_grant g
    JOIN snaptide.publication_table t USING (publication_id)
    WHERE g.login = session_user
$$;
