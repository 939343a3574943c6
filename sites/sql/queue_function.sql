-- Records what a statement changed in an updatable snapshot, or in a table of a
-- replication group at one of its masters: old and new image, and one row for the
-- transaction that all its calls share.
-- An UPDATE fills both transition tables row by row, so that the places of images pair
-- them, also where one row was changed twice by one statement, as by two foreign keys
-- that act on it. Only a row that moved to another partition, where a trigger refused it,
-- has an old image alone; then images are paired by key.
-- What a procedure changes here that destinations run too is kept in small letters, and
-- not sent to those.
-- A column is its number in the captured table. The names by which they were known when
-- the function was made are the same in partitions and children, wherever their columns
-- stand. Whether they are still those of the numbers is asked by a second function of the
-- same name. It is called IMMUTABLE, and names the table by a constant, so that the plan of
-- the question holds the answer until the table changes; and it asks no table of the
-- catalog, of which an old moment would see an old state. Once they are not, statements are
-- composed of the names of now.
-- In a copy of the database tables have other numbers, perhaps columns too: there the table
-- is known by its name, as its columns are. A partition that was detached is a table of its
-- own: nothing is queued.
-- Rows that Snaptide's own statements write were changed elsewhere. What a trigger of
-- yours changes because of them is an effect: a change made here, whoever made the cause.
-- Settings are believed of roles of ours alone: anybody can set them.
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
    -- The captured columns by the names of now; NULL if these are the known ones.
    renamed text;
    copied boolean := false;
    paired boolean;
    ins "char" := 'I'; upd "char" := 'U'; del "char" := 'D';
    -- What a push says of the transaction that it applies here.
    brought jsonb;
    effect boolean := false;
    mixed boolean;
BEGIN
    IF TG_RELID <> {table}::regclass THEN
        WITH RECURSIVE part AS (
            SELECT TG_RELID AS oid
          UNION
            SELECT i.inhparent FROM pg_inherits i JOIN part p ON p.oid = i.inhrelid
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
        {applied}
    END IF;
    IF current_setting('snaptide.call', true) <> '' THEN
        -- Who may call a procedure may also say that it is at work.
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
                USING HINT = 'with synchronous.begin("SITE") as connection: ... changes site and master together.',
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
        -- What was made elsewhere goes other ways than what is made here. A place in
        -- the order that was drawn before this call is too early. A row that another
        -- transaction of this id left, before a restore, stays its own.
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
