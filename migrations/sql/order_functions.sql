CREATE SEQUENCE snaptide.notified_at MINVALUE 0 START 0;

-- Draws a transaction's place in the order, after its last check: rows locked
-- by a deferred constraint are locked by then. Fires at commit, queues itself
-- once more so that every other deferred check comes before it, then draws.
-- Then wakes the pusher, at most once per 100 ms for all sessions: NOTIFY takes
-- a lock until commit, a sequence's last value remembers the time without one.
-- Tables directly manipulated: deferred_transaction.
CREATE FUNCTION snaptide.take_order() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    now_ms bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE snaptide.deferred_transaction SET order_no = 0 WHERE xid = NEW.xid;
        RETURN NULL;
    END IF;
    UPDATE snaptide.deferred_transaction
    SET order_no = nextval('snaptide.order_no') WHERE xid = NEW.xid;
    -- PREPARE TRANSACTION refuses transactions that notified.
    IF current_setting('snaptide.coordinated', true) = 'on' THEN
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

CREATE CONSTRAINT TRIGGER snaptide_order_first
AFTER INSERT ON snaptide.deferred_transaction
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION snaptide.take_order();

CREATE CONSTRAINT TRIGGER snaptide_order_last
AFTER UPDATE ON snaptide.deferred_transaction
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (OLD.order_no IS NULL)
EXECUTE FUNCTION snaptide.take_order();

ALTER TABLE snaptide.deferred_transaction ENABLE ALWAYS TRIGGER snaptide_order_first;
ALTER TABLE snaptide.deferred_transaction ENABLE ALWAYS TRIGGER snaptide_order_last;
