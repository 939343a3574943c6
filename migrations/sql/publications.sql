-- What the policies of publications ask of the login that reads. They run with the rights of
-- their owner, because such a login may not read the tables of publications, and ask for
-- SESSION_USER, which SET ROLE does not change. They say nothing of any other login.
-- Tables directly manipulated: none.
-- The values of a publication's parameters. A login that has no grant gets an error: if it
-- may read the table all the same, as PUBLIC may, a refresh that saw no rows would delete
-- those of the site.
CREATE FUNCTION snaptide.granted(asked int) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    its_values jsonb;
BEGIN
    SELECT g.parameters INTO its_values FROM snaptide.publication_grant g
    WHERE g.publication_id = asked AND g.login = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'The publication of this table is not granted to %.', session_user
            USING ERRCODE = 'insufficient_privilege',
            HINT = 'At the master, run: snaptide grant SITE PUBLICATION NAME';
    END IF;
    RETURN its_values;
END
$$;
-- The site whose login it is; NULL if nothing is granted to it.
CREATE FUNCTION snaptide.granted_site() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT min(g.site_name) FROM snaptide.publication_grant g
    WHERE g.login = session_user
$$;
-- Whether a table is in a publication that is granted to the login.
CREATE FUNCTION snaptide.is_granted(in_schema text, called text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (
        SELECT FROM snaptide.publication_grant g
        JOIN snaptide.publication_table t USING (publication_id)
        WHERE g.login = session_user
          AND (t.table_schema, t.table_name) = (in_schema, called))
$$;
