-- Which transactions go to a destination, and in which batch: those with a row, and those
-- of batches that say which they are. A transaction has no row in such a batch if it
-- began after the batch before it was cut; and no other transaction has an order number
-- in its range, whatever ids come again after a restore.
CREATE VIEW snaptide.delivery AS
SELECT destination, xid, order_no, calls, batch
FROM snaptide.delivery_row
UNION ALL
SELECT b.destination, t.xid, t.order_no, b.calls_each, b.number
FROM snaptide.batch b
JOIN snaptide.deferred_transaction t
  ON t.xid >= b.first_xid AND t.xid < pg_snapshot_xmax(b.shown)
 AND pg_visible_in_snapshot(t.xid, b.shown)
 AND t.order_no BETWEEN b.first_order AND b.last_order
WHERE b.first_xid IS NOT NULL;
