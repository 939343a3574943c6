-- What the login of a site may do here that no grant of a publication gives it, or why it
-- is none: one text for each. Of tables in a list, ten are named.
WITH login AS (
    SELECT oid, rolname, rolcanlogin AS can_log_in,
           rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication
           AS powerful
    FROM pg_roles WHERE rolname = :login
),
given AS (
    SELECT to_regclass(format('%I.%I', t.table_schema, t.table_name))::oid AS oid
    FROM snaptide.publication_grant g
    JOIN snaptide.publication_table t USING (publication_id)
    WHERE g.login = :login
),
named AS (
    SELECT c.oid, c.relkind, format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
      AND n.nspname !~ '^pg_(toast_)?temp_'
      -- Rights on tables of ours, and on logs, come with a grant and go with it.
      AND (n.nspname <> 'snaptide'
           OR NOT EXISTS (SELECT FROM snaptide.publication_grant g WHERE g.login = :login))
      AND NOT EXISTS (SELECT FROM given WHERE given.oid = c.oid)
),
opened AS (
    SELECT named.name FROM named, login
    WHERE CASE WHEN relkind = 'S'
               THEN has_sequence_privilege(login.oid, named.oid, 'USAGE, SELECT, UPDATE')
               ELSE has_table_privilege(login.oid, named.oid,
                        'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
                    OR has_any_column_privilege(login.oid, named.oid,
                        'SELECT, INSERT, UPDATE, REFERENCES') END
    ORDER BY 1 LIMIT 10
),
functions AS (
    SELECT p.oid::regprocedure::text AS name FROM pg_proc p
    JOIN pg_namespace n ON n.oid = p.pronamespace, login
    -- Functions that triggers call need a table of its own, as temporary ones are; whether it
    -- may use their schema can change with what is granted next.
    WHERE p.prosecdef
      AND CASE WHEN p.prorettype = 'trigger'::regtype THEN :updatable
               ELSE n.nspname NOT IN ('pg_catalog', 'information_schema', 'snaptide')
                    AND p.prorettype <> 'event_trigger'::regtype
                    AND has_schema_privilege(login.oid, n.oid, 'USAGE') END
      AND has_function_privilege(login.oid, p.oid, 'EXECUTE')
    ORDER BY 1 LIMIT 10
)
SELECT 'there is no such role' WHERE NOT EXISTS (SELECT FROM login)
UNION ALL
SELECT 'it is a superuser, or may bypass row-level security, create roles or databases, '
       'or replicate' FROM login WHERE powerful
UNION ALL
SELECT 'it cannot log in' FROM login WHERE NOT can_log_in
UNION ALL
SELECT 'it is a member of ' || string_agg(DISTINCT r.rolname, ', ')
FROM login JOIN pg_auth_members m ON m.member = login.oid JOIN pg_roles r ON r.oid = m.roleid
WHERE r.rolname NOT IN ('snaptide_site', 'snaptide_apply') HAVING count(*) > 0
UNION ALL
SELECT 'it may become ' || string_agg(DISTINCT r.rolname, ', ') || ', which policies do not bind '
       '(REVOKE that role, and grant again)'
FROM login JOIN pg_auth_members m ON m.member = login.oid AND (m.set_option OR m.admin_option)
JOIN pg_roles r ON r.oid = m.roleid
WHERE r.rolname IN ('snaptide_site', 'snaptide_apply') HAVING count(*) > 0
UNION ALL
SELECT 'others are its members: ' || string_agg(DISTINCT r.rolname, ', ')
FROM login JOIN pg_auth_members m ON m.roleid = login.oid AND (m.inherit_option OR m.set_option)
JOIN pg_roles r ON r.oid = m.member HAVING count(*) > 0
UNION ALL
SELECT 'it may create temporary tables, and triggers on them that call functions of others '
       '(REVOKE TEMPORARY ON DATABASE ' || quote_ident(current_database()) || ' FROM PUBLIC, '
       'and grant it to those who need it)'
FROM login
WHERE NOT :updatable AND has_database_privilege(login.oid, current_database(), 'TEMPORARY')
UNION ALL
SELECT 'it may not create temporary tables, which its pushes fill '
       '(GRANT TEMPORARY ON DATABASE ' || quote_ident(current_database()) || ' TO '
       || quote_ident(rolname) || ')'
FROM login
WHERE :updatable AND NOT has_database_privilege(oid, current_database(), 'TEMPORARY')
UNION ALL
SELECT 'it may create schemas'
FROM login WHERE has_database_privilege(login.oid, current_database(), 'CREATE')
UNION ALL
SELECT 'it may create objects in ' || string_agg(quote_ident(n.nspname), ', ' ORDER BY n.nspname)
FROM login, pg_namespace n
WHERE n.nspname !~ '^pg_(toast_)?temp_' AND has_schema_privilege(login.oid, n.oid, 'CREATE')
HAVING count(*) > 0
UNION ALL
SELECT 'it has rights on ' || string_agg(name, ', ') FROM opened HAVING count(*) > 0
UNION ALL
SELECT 'it may run functions with the rights of their owners: ' || string_agg(name, ', ')
FROM functions HAVING count(*) > 0
