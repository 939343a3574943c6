-- The order of transactions: order_no numbers them and their calls.
CREATE SEQUENCE snaptide.order_no;
-- Its last value is when the pusher was last woken, in milliseconds since 1970.
CREATE SEQUENCE snaptide.notified_at MINVALUE 0 START WITH 0;

CREATE CONSTRAINT TRIGGER snaptide_order_first AFTER INSERT
    ON snaptide.deferred_transaction DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION snaptide.take_order();
CREATE CONSTRAINT TRIGGER snaptide_order_last AFTER UPDATE OF start_time
    ON snaptide.deferred_transaction DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION snaptide.take_order();
ALTER TABLE snaptide.deferred_transaction
    ENABLE ALWAYS TRIGGER snaptide_order_first,
    ENABLE ALWAYS TRIGGER snaptide_order_last;
