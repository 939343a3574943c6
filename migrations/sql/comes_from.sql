-- What triggers of yours may ask of the change that fires them. They inform; nothing of
-- ours depends on them.
-- From which site Snaptide brings the change: the one where it was made, or at a snapshot
-- the master. NULL where it is made here, by whatever program; a procedure that a
-- transaction of another site calls here makes its changes here too. What a role says that
-- is none of ours is not believed.
CREATE FUNCTION snaptide.comes_from() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT NULLIF(current_setting('snaptide.origin', true), '')
    WHERE pg_has_role(session_user, 'snaptide_apply', 'MEMBER')
      AND current_setting('snaptide.writing', true) IS DISTINCT FROM 'call'
$$;
-- And how: 'refresh', 'synchronous', or 'push', also of what is retried; else NULL.
CREATE FUNCTION snaptide.comes_by() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN current_setting('snaptide.writing', true) ~ '^[0-9]+$' THEN 'refresh'
                WHEN current_setting('snaptide.coordinated', true) = 'master' THEN 'synchronous'
                ELSE 'push' END
    WHERE snaptide.comes_from() IS NOT NULL
$$;

GRANT USAGE ON SCHEMA snaptide TO PUBLIC;
