-- Records what a statement changed in an updatable snapshot, or in a table of a
-- replication group at one of its masters: old and new image, and one row for the
-- transaction that all its calls share.
-- An UPDATE fills both transition tables row by row, so images are paired by their places,
-- even if one statement changed a row twice, for example through two foreign keys that act
-- on it. Only a row that moved to another partition, where a trigger refused it, has an
-- old image alone; then images are paired by key.
-- Changes of a procedure that destinations run too are recorded with a small letter, and
-- are not sent to those destinations.
-- A column is identified by its number in the captured table. Its name at the time when the
-- function was made is the same in partitions and children, whatever its place there. A
-- second function of the same name finds out whether the names still belong to the numbers.
-- It is declared IMMUTABLE and names the table by a constant, so that a plan holds the
-- answer until the table changes; and it reads no catalog table, because an old moment
-- would see an old state of it. If the names have changed, statements are composed of the
-- present names.
-- In a copy of the database, tables and perhaps columns have other numbers: there tables
-- and columns are identified by name. A detached partition is a table of its own, and
-- nothing is queued for it.
-- Rows that Snaptide's own statements write were changed at another site. A change that a
-- user's trigger makes because of them, or a function that a check, a default or an index
-- calls, is an effect: it counts as made here. Such a function has the trigger depth of the
-- statement that calls it, but its lines stand below this function's own in the context;
-- what a foreign key does is run in no function.
-- Settings are trusted only from roles of ours, because every user can set them.
-- Tables directly manipulated: the queue, the extra keys, deferred_transaction.
CREATE OR REPLACE FUNCTION {function}(captured regclass) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $snaptide$
    SELECT NOT EXISTS (
        SELECT FROM unnest({numbers}::integer[], {names}::text[]) AS c (number, name)
        WHERE (pg_identify_object_as_address(1259, captured, c.number)).object_names[3]
              IS DISTINCT FROM c.name)
$snaptide$;
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
DECLARE
    xact xid8 := pg_current_xact_id();
    written bigint;
    -- The captured columns by their present names; NULL if these are the known ones.
    renamed text;
    copied boolean := false;
    paired boolean;
    ins "char" := 'I'; upd "char" := 'U'; del "char" := 'D';
    -- The push's description of the transaction that it applies here.
    brought jsonb;
    context text;
    inside boolean;
    effect boolean := false;
    mixed boolean;
BEGIN
    IF TG_RELID <> {table}::regclass THEN
        -- An old moment sees old entries of pg_inherits, the function sees the present.
        WITH RECURSIVE part AS (
            SELECT TG_RELID AS oid
          UNION
            SELECT relid FROM pg_partition_ancestors(TG_RELID)
          UNION
            SELECT i.inhparent FROM pg_inherits i JOIN part p ON p.oid = i.inhrelid
            WHERE pg_partition_root(i.inhparent) IS NULL
        )
        SELECT NOT bool_or(oid = {table}::regclass) INTO copied FROM part
        HAVING bool_or(oid = {table}::regclass OR oid = to_regclass({table_name}));
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    IF NOT (copied OR {function}({table}::regclass)) THEN
        SELECT string_agg(format('%I AS c%s', now.names[3], c.place), ', ' ORDER BY c.place)
        INTO renamed
        FROM unnest({numbers}::integer[]) WITH ORDINALITY AS c (number, place),
             pg_identify_object_as_address(1259, {table}::regclass, c.number) AS now (kind, names)
        HAVING NOT bool_or(now.names[3] LIKE '........pg.dropped.%');
        IF renamed IS NULL THEN
            RAISE EXCEPTION 'A column whose changes are queued is gone from this table'
                USING HINT = 'Run: snaptide doctor', ERRCODE = 'undefined_column';
        END IF;
    END IF;
    IF current_setting('snaptide.origin', true) <> ''
       AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
        brought := NULLIF(current_setting('snaptide.transaction', true), '')::jsonb;
        GET DIAGNOSTICS context = PG_CONTEXT;
        inside := pg_trigger_depth() > 1
            OR strpos(replace(context, quote_ident({name}), ''), E'\n') > 0;
        {applied}
    END IF;
    IF current_setting('snaptide.call', true) <> '' THEN
        -- A user who may call a procedure may also say that it is running.
        IF EXISTS (
            SELECT FROM snaptide.procedure_call p
            WHERE p.xid = xact AND p.call_no::text = current_setting('snaptide.call', true)
              AND p.ran_here AND {destinations}::text[] && p.destinations
        ) AND has_function_privilege(
            session_user, 'snaptide.defer_call(text, text[], jsonb, boolean)', 'EXECUTE'
        ) THEN
            ins := 'i'; upd := 'u'; del := 'd';
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
        {insert};
    ELSIF TG_OP = 'DELETE' THEN
        {delete};
    ELSE
        {refuse_moved}
        paired := (SELECT count(*) FROM snaptide_old) = (SELECT count(*) FROM snaptide_new);
        IF paired THEN
            {update_by_place};
        ELSE
            {update_by_key};
        END IF;
    END IF;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written > 0 THEN
        IF {synchronous} AND NOT (
            COALESCE(current_setting('snaptide.coordinated', true), '') = 'site'
            AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER')
        ) THEN
            RAISE EXCEPTION 'This snapshot is propagated synchronously: its rows can only be changed in a coordinated transaction'
                USING HINT = 'Use synchronous.begin("SITE"), which changes site and master together.',
                      ERRCODE = CASE WHEN effect THEN 'raise_exception'
                                     ELSE 'object_not_in_prerequisite_state' END;
        END IF;
        IF {grouped} AND current_setting('snaptide.coordinated', true) = 'site'
           AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
            RAISE EXCEPTION 'A table of a replication group cannot be changed in a coordinated transaction'
                USING HINT = 'Change it in a transaction of its own.',
                      ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        INSERT INTO snaptide.deferred_transaction
            (xid, origin_user, origin, origin_transaction, made_at, sources)
        VALUES (xact, COALESCE(brought ->> 'user', session_user), brought ->> 'origin',
                brought ->> 'transaction', (brought ->> 'made_at')::timestamptz,
                brought -> 'sources') ON CONFLICT (xid) DO NOTHING;
        -- Changes from other sites take other paths than changes made here. An order
        -- number that was drawn before this call is too early. A row that another
        -- transaction with this id left before a restore is not touched.
        IF NOT FOUND THEN
            UPDATE snaptide.deferred_transaction AS known
            SET order_no = NULL, start_time = now()
            WHERE known.xid = xact AND known.start_time = now()
              AND (known.order_no IS NOT NULL
                   OR known.origin IS DISTINCT FROM brought ->> 'origin'
                   OR known.origin_transaction IS DISTINCT FROM brought ->> 'transaction'
                   OR known.sources ->> {group} IS DISTINCT FROM brought -> 'sources' ->> {group})
            RETURNING (known.origin, known.origin_transaction, known.sources ->> {group})
                      IS DISTINCT FROM (brought ->> 'origin', brought ->> 'transaction',
                                        brought -> 'sources' ->> {group}) INTO mixed;
        END IF;
        IF mixed THEN
            {together}
        END IF;
    END IF;
    RETURN NULL;
END
$snaptide$
