-- Drops what the baseline made. No CASCADE, so that a view or default of a user's that
-- depends on it is an error, which names it.
DO $$
DECLARE
    step text;
BEGIN
    FOR step IN
        SELECT format('DROP %s %s', what, string_agg(name, ', '))
        FROM (
            SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS what,
                   c.oid::regclass::text AS name
            FROM pg_class c
            WHERE c.relnamespace = 'snaptide'::regnamespace
              AND c.relkind IN ('v', 'r') AND c.relname <> 'alembic_version'
            UNION ALL
            SELECT 'FUNCTION', p.oid::regprocedure::text
            FROM pg_proc p WHERE p.pronamespace = 'snaptide'::regnamespace
        ) found
        GROUP BY what ORDER BY what = 'VIEW' DESC, what = 'TABLE' DESC
    LOOP
        EXECUTE step;
    END LOOP;
END
$$;
