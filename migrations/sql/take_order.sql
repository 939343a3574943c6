-- Draws a transaction's place in the order, after its last check: rows that a deferred
-- constraint locks are locked by then. It fires at commit, queues itself once more so
-- that every other deferred check comes before it, and then draws. If SET CONSTRAINTS
-- had the number drawn early, the next call forgets it, and it is drawn again.
-- Then it wakes the pusher, at most once per 100 ms for all sessions: NOTIFY takes a lock
-- until commit, while the last value of a sequence remembers the time without one.
-- A transaction that its coordinator carries ('site') has no row left by then: the
-- coordinator has sent all calls and taken them out. Committing it past the coordinator
-- is refused. A transaction that its program prepares ('on') only goes unnotified.
-- PREPARE TRANSACTION is looked for anywhere in the text that the client sent, because
-- no function can see how its transaction ends. After a false match this transaction
-- wakes no pusher, but the next one does.
-- Nor is it woken while the server's queue of notifications is nearly full: a commit that
-- notifies would fail. Workers look at queues every 30 seconds anyway.
-- The last firing is queued by an UPDATE that sets start_time to what it is: PostgreSQL
-- would check a condition in WHEN at each UPDATE of each writer.
-- Tables directly manipulated: deferred_transaction.
CREATE OR REPLACE FUNCTION snaptide.take_order() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    coordinated text := current_setting('snaptide.coordinated', true);
    now_ms bigint;
BEGIN
    IF NEW.order_no IS NULL THEN
        UPDATE snaptide.deferred_transaction
        SET order_no = 0, start_time = start_time WHERE xid = NEW.xid;
        IF FOUND AND coordinated = 'site'
           AND pg_has_role(session_user, 'snaptide_apply', 'MEMBER') THEN
            RAISE EXCEPTION 'A coordinated transaction cannot be committed past its coordinator'
                USING HINT = 'Commit through the connection of synchronous.begin(...).',
                      ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        RETURN NULL;
    END IF;
    UPDATE snaptide.deferred_transaction
    SET order_no = nextval('snaptide.order_no') WHERE xid = NEW.xid;
    -- PREPARE TRANSACTION refuses transactions that notified.
    IF coordinated <> '' THEN
        RETURN NULL;
    END IF;
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;
    -- Not by a SELECT from the sequence, which would take a statement.
    IF now_ms - COALESCE(pg_sequence_last_value('snaptide.notified_at'), 0) NOT BETWEEN 0 AND 99
       AND COALESCE(current_query(), '') !~* E'\\mprepare(\\s|--[^\\n\\r]*|/\\*.*\\*/)+transaction\\M' THEN
        PERFORM setval('snaptide.notified_at', now_ms);
        IF pg_notification_queue_usage() < 0.9 THEN
            PERFORM pg_notify('snaptide_push', '');
        END IF;
    END IF;
    RETURN NULL;
END
$$;
