-- Calls in the queues, by destination and transaction. Replaced whenever a queue
-- comes or goes; here it is made of the queues that are there.
DO $$
DECLARE
    parts text;
BEGIN
    SELECT string_agg(
        format('SELECT %L::text AS destination, c.xid, count(*) AS calls,'
               ' sum(pg_column_size(c)) AS bytes FROM snaptide.%I c GROUP BY c.xid',
               destination, queue_table),
        ' UNION ALL ')
    INTO parts
    FROM snaptide.queue;
    EXECUTE 'CREATE VIEW snaptide.defload AS '
        || COALESCE(parts, 'SELECT NULL::text AS destination, NULL::xid8 AS xid,'
                           ' NULL::bigint AS calls, NULL::bigint AS bytes WHERE false');
END
$$;

-- What waits for each destination, and how much of it its budget allows.
CREATE VIEW snaptide.defbacklog AS
SELECT d.name AS destination,
       count(w.xid) AS transactions,
       COALESCE(sum(w.calls), 0)::bigint AS calls,
       COALESCE(sum(w.bytes), 0)::bigint AS bytes,
       min(w.start_time) AS oldest,
       d.disabled, d.max_lag_age, d.max_lag_bytes, d.invalid_since, d.invalid_reason,
       d.retry_at, d.last_push_at, d.last_txn_count, d.last_error, d.last_error_at
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
