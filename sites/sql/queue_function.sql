-- Records what a statement changed in an updatable snapshot, or in a table of a
-- replication group at one of its masters: old and new image, and one row for the
-- transaction that all its calls share.
-- An UPDATE fills both transition tables row by row, so that the places of images pair
-- them, also where one row was changed twice by one statement, as by two foreign keys
-- that act on it. Only a row that moved to another partition, where a trigger refused it,
-- has an old image alone; then images are paired by key.
-- What a procedure changes here that destinations run too is kept in small letters, and
-- not sent to those.
-- Tables directly manipulated: the queue, the extra keys, deferred_transaction.
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $snaptide$
DECLARE
    xact xid8 := pg_current_xact_id();
    aside boolean;
    ins "char" := 'I'; upd "char" := 'U'; del "char" := 'D';
    -- What a push says of the transaction that it applies here.
    brought jsonb;
    mixed boolean;
BEGIN
    -- Asked in two steps: the first alone needs no plan.
    IF to_regclass({view}) IS DISTINCT FROM {view_oid}::oid THEN
        IF {column_count} > (
            SELECT count(*) FROM pg_attribute
            WHERE attrelid = TG_RELID AND attnum = ANY ({column_numbers}) AND NOT attisdropped
        ) THEN
            RAISE EXCEPTION 'A column whose changes are queued is gone from this table'
                USING HINT = 'Run: snaptide doctor', ERRCODE = 'undefined_column';
        END IF;
    END IF;
    IF current_setting('snaptide.origin', true) <> ''
       AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
        {applied}
    END IF;
    IF current_setting('snaptide.call', true) <> '' THEN
        IF EXISTS (
            SELECT FROM snaptide.procedure_call p
            WHERE p.xid = xact AND p.call_no::text = current_setting('snaptide.call', true)
              AND p.ran_here AND {destinations}::text[] && p.destinations
        ) THEN
            ins := 'i'; upd := 'u'; del := 'd';
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {queue} (call_no, xid, kind, moved, {new_images})
        SELECT nextval('snaptide.order_no'), xact, ins, false, {columns}
        FROM snaptide_new AS n ({row});
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO {queue} (call_no, xid, kind, moved, {old_images})
        SELECT nextval('snaptide.order_no'), xact, del, false, {columns}
        FROM snaptide_old AS o ({row});
    ELSE
        {refuse_moved}
        IF (SELECT count(*) FROM snaptide_old) = (SELECT count(*) FROM snaptide_new)
           AND NOT EXISTS (SELECT FROM {pairs} WHERE NOT ({same_key})) THEN
            INSERT INTO {queue} (call_no, xid, kind, moved, {old_images}, {new_images})
            SELECT nextval('snaptide.order_no'), xact, upd, p.*
            FROM (SELECT NOT ({same_key}), {old_columns}, {new_columns}
                  FROM {pairs} ORDER BY n.snaptide$place) AS p;
        ELSE
            INSERT INTO {queue} (call_no, xid, kind, moved, {old_images}, {new_images})
            SELECT nextval('snaptide.order_no'), xact,
                   CASE WHEN n.{key} IS NULL THEN del WHEN o.{key} IS NULL THEN ins ELSE upd END,
                   n.{key} IS NULL OR o.{key} IS NULL,
                   {old_columns}, {new_columns}
            FROM snaptide_new AS n ({row}) FULL JOIN snaptide_old AS o ({row}) ON {same_key};
        END IF;
    END IF;
    IF FOUND THEN
        IF {synchronous} AND current_setting('snaptide.coordinated', true) IS DISTINCT FROM 'site' THEN
            RAISE EXCEPTION 'This snapshot is propagated synchronously: its rows can only be changed in a coordinated transaction'
                USING HINT = 'with deferred.synchronous("SITE") as connection: ... changes site and master together.',
                      ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        IF {grouped} AND current_setting('snaptide.coordinated', true) = 'site' THEN
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
                   OR known.origin_transaction IS DISTINCT FROM brought ->> 'transaction')
            RETURNING (known.origin, known.origin_transaction)
                      IS DISTINCT FROM (brought ->> 'origin', brought ->> 'transaction') INTO mixed;
        END IF;
        IF mixed THEN
            RAISE EXCEPTION 'Changes that were made at different sites cannot be in one transaction'
                USING HINT = 'Commit after each retry of a parked transaction, before anything else is changed.',
                      ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
    RETURN NULL;
END
$snaptide$
