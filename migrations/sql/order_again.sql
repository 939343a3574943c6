-- Draws a transaction's place in the order, after its last check: rows locked
-- by a deferred constraint are locked by then. Fires at commit, queues itself
-- once more so that every other deferred check comes before it, then draws.
-- SET CONSTRAINTS may have it drawn early: the next call forgets the number,
-- and it is drawn again.
-- Then wakes the pusher, at most once per 100 ms for all sessions: NOTIFY takes
-- a lock until commit, a sequence's last value remembers the time without one.
-- A coordinated transaction has no row left by then: its coordinator has sent
-- all calls and taken them out. One that is committed past it is refused.
-- Tables directly manipulated: deferred_transaction.
CREATE OR REPLACE FUNCTION snaptide.take_order() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    coordinated text := current_setting('snaptide.coordinated', true);
    now_ms bigint;
BEGIN
    IF NEW.order_no IS NULL THEN
        UPDATE snaptide.deferred_transaction SET order_no = 0 WHERE xid = NEW.xid;
        IF FOUND AND coordinated = 'on' THEN
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
    IF now_ms - (SELECT last_value FROM snaptide.notified_at) NOT BETWEEN 0 AND 99 THEN
        PERFORM setval('snaptide.notified_at', now_ms);
        PERFORM pg_notify('snaptide_push', '');
    END IF;
    RETURN NULL;
END
$$;

DROP TRIGGER snaptide_order_last ON snaptide.deferred_transaction;

CREATE CONSTRAINT TRIGGER snaptide_order_last
AFTER UPDATE ON snaptide.deferred_transaction
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.order_no = 0)
EXECUTE FUNCTION snaptide.take_order();

CREATE CONSTRAINT TRIGGER snaptide_order_again
AFTER UPDATE ON snaptide.deferred_transaction
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.order_no IS NULL)
EXECUTE FUNCTION snaptide.take_order();

ALTER TABLE snaptide.deferred_transaction ENABLE ALWAYS TRIGGER snaptide_order_last;
ALTER TABLE snaptide.deferred_transaction ENABLE ALWAYS TRIGGER snaptide_order_again;
