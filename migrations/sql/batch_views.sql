-- Two of the dictionary views, since a batch says how far it was answered. Earlier
-- batches of a destination are answered before its next one is cut.
CREATE OR REPLACE VIEW snaptide.deftrandest AS
SELECT t.xid::text AS deferred_tran_id,
       s.name AS deferred_tran_db,
       GREATEST(t.order_no, max(c.callno)) AS delivery_order,
       c.destination AS dblink,
       d.batch,
       count(*) AS calls
FROM snaptide.deferred_transaction t
CROSS JOIN snaptide.site_identity s
JOIN snaptide.defcall c ON c.deferred_tran_id = t.xid::text
LEFT JOIN snaptide.delivery d ON d.destination = c.destination AND d.xid = t.xid
LEFT JOIN snaptide.destination n ON n.name = c.destination
LEFT JOIN snaptide.batch b ON b.destination = n.name AND b.number = n.batch_no
WHERE d.batch IS NULL OR (d.batch = n.batch_no AND d.order_no > b.answered)
GROUP BY t.xid, t.order_no, s.name, c.destination, d.batch;

CREATE OR REPLACE VIEW snaptide.defbacklog AS
SELECT d.name AS destination,
       count(w.xid) AS transactions,
       COALESCE(sum(w.calls), 0)::bigint AS calls,
       COALESCE(sum(w.bytes), 0)::bigint AS bytes,
       min(w.start_time) AS oldest,
       (SELECT COALESCE(jsonb_agg(jsonb_build_object('state', s.state,
               'since', s.since, 'reason', s.reason) ORDER BY s.state, s.reason), '[]')
           FROM snaptide.destination_state s WHERE s.destination = d.name) AS states,
       d.max_lag_age, d.max_lag_bytes, d.retry_at,
       d.last_push_at, d.last_txn_count, d.last_error, d.last_error_at
FROM snaptide.destination d
LEFT JOIN snaptide.batch b ON b.destination = d.name AND b.number = d.batch_no
LEFT JOIN LATERAL (
    SELECT l.xid, t.start_time, sum(l.calls) AS calls, sum(l.bytes) AS bytes
    FROM snaptide.defload l
    JOIN snaptide.deferred_transaction t ON t.xid = l.xid
    LEFT JOIN snaptide.delivery y ON y.destination = d.name AND y.xid = l.xid
    WHERE l.destination = d.name
      AND (y.batch IS NULL OR (y.batch = d.batch_no AND y.order_no > b.answered))
    GROUP BY l.xid, t.start_time
) w ON true
GROUP BY d.name;
