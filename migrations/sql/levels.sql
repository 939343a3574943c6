-- What Virtuoso calls levels: how far each subscriber of a master is, and how far each
-- site's changes have come to their master.

-- Whether a log has changes of transactions that a position has not seen, as
-- `sites.capture.position.since` says it.
CREATE FUNCTION snaptide.repl_waits(log_table text, seen pg_snapshot) RETURNS boolean
LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog AS $$
DECLARE
    waits boolean;
BEGIN
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM snaptide.%1$I
                        WHERE xid >= pg_snapshot_xmax($1)
                          AND xid < pg_snapshot_xmax(pg_current_snapshot()))
             OR EXISTS (SELECT FROM snaptide.%1$I
                        WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1))))',
        log_table) INTO waits USING seen;
    RETURN waits;
END
$$;

CREATE VIEW snaptide.repl_level AS
-- Here as a subscriber: the refresh groups.
SELECT g.master AS server,
       g.name AS account,
       i.name AS subscriber,
       LEAST(pg_snapshot_xmax(COALESCE(g.unchanged_at, g.position))::text::bigint,
             s.oldest) - 1 AS level,
       NULL::bigint AS published_level,
       NULL::boolean AS valid,
       CASE WHEN g.position IS NULL THEN 'off'
            WHEN w.works THEN 'syncing'
            WHEN g.last_error IS NOT NULL THEN 'disconnected'
            WHEN s.oldest IS NOT NULL OR s.lacks_rows THEN 'syncing'
            ELSE 'in sync' END AS state
FROM snaptide.refresh_group g
CROSS JOIN snaptide.site_identity i
CROSS JOIN LATERAL (
    SELECT min(pg_snapshot_xmax(position)::text::bigint) AS oldest,
           bool_or(NOT loaded) AS lacks_rows
    FROM snaptide.snapshot WHERE refresh_group = g.name
) s
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM snaptide.activity a JOIN pg_stat_activity p USING (pid)
        WHERE a.kind = 'refresh' AND a.subject = g.name
          AND COALESCE(p.backend_start <= a.started_at, true)) AS works
) w
UNION ALL
-- Here as a subscriber: what goes back to its masters.
SELECT b.destination,
       '!' || b.destination,
       i.name,
       l.level,
       GREATEST(l.level, (SELECT max(t.delivery_order) FROM snaptide.deftrandest t
                          WHERE t.dblink = b.destination)),
       NOT b.states @> '[{"state": "invalid"}]',
       CASE WHEN b.states @> '[{"state": "invalid"}]' THEN 'invalid'
            WHEN b.states @> '[{"state": "disabled"}]'
              OR b.states @> '[{"state": "joining"}]' THEN 'off'
            WHEN b.last_error IS NOT NULL THEN 'disconnected'
            WHEN b.transactions > 0 THEN 'syncing'
            ELSE 'in sync' END
FROM snaptide.defbacklog b
JOIN snaptide.destination d ON d.name = b.destination
CROSS JOIN snaptide.site_identity i
CROSS JOIN LATERAL (
    SELECT GREATEST(max(y.answered), d.purged_order) AS level
    FROM snaptide.batch y
    WHERE y.destination = d.name
) l
WHERE EXISTS (SELECT FROM snaptide.route r WHERE r.destination = b.destination)
   OR b.transactions > 0
UNION ALL
-- Here as the publisher: the snapshots that are registered.
SELECT i.name,
       r.snapshot,
       r.site_name,
       pg_snapshot_xmax(r.position)::text::bigint - 1,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1,
       l.reaches,
       CASE WHEN r.position IS NULL THEN 'off'
            WHEN l.reaches IS NOT TRUE THEN 'invalid'
            WHEN l.waits THEN 'syncing'
            ELSE 'in sync' END
FROM snaptide.registered_snapshot r
CROSS JOIN snaptide.site_identity i
CROSS JOIN LATERAL (
    SELECT bool_and(pg_visible_in_snapshot(n.created_xid, r.position)
                    AND pg_snapshot_xmin(r.position) >= n.horizon) AS reaches,
           bool_or(snaptide.repl_waits(n.log_table, r.position)) AS waits
    FROM (
        SELECT o.created_xid, o.horizon, o.log_table,
               (o.table_schema, o.table_name) = (r.table_schema, r.table_name) AS own,
               CASE WHEN o.table_schema = 'public' THEN '' ELSE
                   CASE WHEN o.table_schema ~ '[."]'
                        THEN '"' || replace(o.table_schema, '"', '""') || '"'
                        ELSE o.table_schema END || '.' END
               || CASE WHEN o.table_name ~ '[."]'
                       THEN '"' || replace(o.table_name, '"', '""') || '"'
                       ELSE o.table_name END AS shown
        FROM snaptide.snapshot_log o
    ) n
    WHERE n.own OR n.shown = ANY (r.parents)
) l
WHERE r.site_id NOT IN (SELECT id FROM snaptide.image);

-- A level and a state in Virtuoso's numbers: 0 off, 1 syncing, 2 in sync, 3 and 4
-- disconnected. At the publisher, the level is its own, and the state 0.
CREATE FUNCTION snaptide.repl_status(
    server text, account text, OUT level bigint, OUT stat integer)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT CASE WHEN l.server = i.name THEN max(l.published_level) ELSE max(l.level) END,
           CASE WHEN l.server = i.name THEN 0 ELSE max(
               CASE l.state WHEN 'syncing' THEN 1
                            WHEN 'in sync' THEN 2
                            WHEN 'disconnected'
                                THEN CASE WHEN starts_with(l.account, '!') THEN 4 ELSE 3 END
                            ELSE 0 END) END
    INTO repl_status.level, repl_status.stat
    FROM snaptide.repl_level l CROSS JOIN snaptide.site_identity i
    WHERE l.server = repl_status.server AND l.account = repl_status.account
    GROUP BY l.server, i.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'This site has no account % of server %.', account, server
            USING ERRCODE = 'no_data_found',
                  HINT = 'List them with: SELECT server, account FROM snaptide.repl_level';
    END IF;
END
$$;
