-- The dictionary views, after Oracle's. defcall is replaced whenever a queue
-- comes or goes; the other views stay on it.
CREATE VIEW snaptide.defcall AS
SELECT NULL::bigint AS callno, NULL::text AS deferred_tran_id, NULL::text AS snapshot,
       NULL::text AS destination, NULL::text AS schemaname, NULL::text AS tablename,
       NULL::text AS operation, NULL::jsonb AS old_values, NULL::jsonb AS new_values
WHERE false;

-- Transactions on their way: not yet applied or parked at a destination.
CREATE VIEW snaptide.deftrandest AS
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
WHERE d.delivered_at IS NULL
GROUP BY t.xid, t.order_no, s.name, c.destination, d.batch;

CREATE VIEW snaptide.deftran AS
SELECT d.deferred_tran_id,
       d.deferred_tran_db,
       t.origin_user,
       min(d.delivery_order) AS delivery_order,
       array_agg(d.dblink ORDER BY d.dblink) AS destinations,
       t.start_time
FROM snaptide.deftrandest d
JOIN snaptide.deferred_transaction t ON t.xid::text = d.deferred_tran_id
GROUP BY d.deferred_tran_id, d.deferred_tran_db, t.origin_user, t.start_time;

CREATE VIEW snaptide.deferror AS
SELECT e.id AS error_id,
       e.origin_transaction AS deferred_tran_id,
       e.origin AS deferred_tran_db,
       s.name AS destination,
       e.origin_user,
       e.start_time,
       e.parked_at,
       e.reason,
       e.error_code AS error_number,
       e.error_message AS error_msg,
       e.waits_for,
       (SELECT count(*) FROM snaptide.error_call c WHERE c.error_id = e.id)
       + (SELECT count(*) FROM snaptide.error_procedure p WHERE p.error_id = e.id) AS calls
FROM snaptide.error_transaction e CROSS JOIN snaptide.site_identity s;

CREATE VIEW snaptide.defschedule AS
SELECT kind, subject AS dblink, "interval", next_at AS next_date, last_at AS last_date,
       disabled, options, last_error AS last_error_message
FROM snaptide.schedule;

-- What waits for each destination, and how much of it its budget allows.
CREATE VIEW snaptide.defbacklog AS
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
LEFT JOIN LATERAL (
    SELECT l.xid, t.start_time, sum(l.calls) AS calls, sum(l.bytes) AS bytes
    FROM snaptide.defload l
    JOIN snaptide.deferred_transaction t ON t.xid = l.xid
    LEFT JOIN snaptide.delivery y ON y.destination = d.name AND y.xid = l.xid
    WHERE l.destination = d.name
      AND y.delivered_at IS NULL
      -- A pusher that died has not marked those of older batches.
      AND (y.batch IS NULL OR y.batch >= d.batch_no)
    GROUP BY l.xid, t.start_time
) w ON true
GROUP BY d.name;
