"""Each figure is what SQL says, at sites where each state is planted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sites import Directory, Site
from snapshots.definitions.refresh_notes import LIMITS
from snaptide.figures import FIGURES
from tests.fix_worlds import prepared_once
from tests.integration.test_figures import figures
from tests.linked_table import application, link, run

#: A site that pushes and refreshes, and what goes wrong there.
AT_JFK = """
INSERT INTO orders (id) VALUES (1), (2);
UPDATE snaptide.destination SET delivered = 7, last_error = 'SNP-001 It is away.',
  last_push_at = now() - interval '2 h';
INSERT INTO snaptide.destination_state (destination, state, reason)
VALUES ('hq', 'invalid', 'too much');
INSERT INTO snaptide.refresh_group (name, master, master_id, refreshed_at, last_error,
  held_back, rows_inserted, rows_updated, rows_deleted, rows_held_back)
VALUES ('airport', 'hq', gen_random_uuid(), now() - interval '3 h', 'SNP-300 No.',
  '{"locked": 3, "pending": 1}', 11, 12, 13, 14),
  ('codes', 'hq', gen_random_uuid(), NULL, NULL, '{}', 0, 0, 0, 0);
INSERT INTO snaptide.promise (refresh_group, answered_within, state, age,
  looked_at)
VALUES ('airport', '5 min', 'late', 1234, now());
INSERT INTO snaptide.refresh_step (refresh_group, step, at_most, refreshes, seconds)
SELECT 'airport', step, at_most, 2 + length(step), 0.5
FROM unnest('{ask, merge}'::text[]) step, unnest('{LIMITS}'::float8[]) at_most;
INSERT INTO snaptide.schedule (kind, subject, interval, next_at, last_error, disabled)
VALUES ('refresh', 'airport', '1h', now() - interval '2 h', NULL, false),
  ('push', 'hq', '1h', now() + interval '1 h', 'SNP-001 It is away.', false),
  ('purge', '*', '1h', now() - interval '9 h', NULL, true);
INSERT INTO snaptide.check_run (began_at, seconds, columns, most)
VALUES (now(), 1, '{}', 10), (now(), 1, '{}', 10);
INSERT INTO snaptide.check_snapshot (run_id, snapshot, no, refresh_group, master,
  master_table, moment_here, rows_master, rows_here, counts)
SELECT id, name, 1, 'airport', 'hq', name, pg_current_snapshot(), 1, 1, counts::jsonb
FROM snaptide.check_run, (VALUES (1, 'a', '[["differs", "unexplained", 7]]'),
  (2, 'a', '[["extra", "unexplained", 2], ["missing", "queued", 5]]'),
  (1, 'b', '[["missing", "unexplained", 4]]')) AS found (run, name, counts)
WHERE id = run
"""

#: A master that has conflicts, and logs that other sites need.
AT_HQ = """
INSERT INTO orders (id) SELECT generate_series(100, 999);
UPDATE snaptide."mlog$_orders" SET at = now() - interval '4 h';
INSERT INTO snaptide.error_transaction (origin_id, origin, origin_transaction,
  origin_user, reason, error_code, error_message, batch_no, order_no, parked_at)
SELECT gen_random_uuid(), 'jfk', n::text, 'u', CASE n WHEN 1 THEN 'error'
  ELSE 'conflict' END, 'X', 'no', 1, n, now() - interval '1 h' * n
FROM generate_series(1, 3) n;
INSERT INTO snaptide.resolution_record (table_schema, table_name, row_key, origin,
  origin_transaction, kind, reference, sequence_no, method, decision)
SELECT 'public', 'orders', '{}', 'jfk', '1', 'update', 'amounts', 1, method, 'applied'
FROM unnest('{additive, additive, discard}'::text[]) method;
INSERT INTO snaptide.purged_resolutions VALUES ('additive', 5);
INSERT INTO snaptide.registered_snapshot (site_id, snapshot, site_name, table_schema,
  table_name, updatable, position, refreshed_at)
VALUES (gen_random_uuid(), 'a', 'lax', 'public', 'orders', false, NULL, now()),
  ('00000000-0000-0000-0000-000000000001', 'a', 'jfk', 'public', 'orders', false,
   pg_current_snapshot(), now() - interval '2 h'),
  ('00000000-0000-0000-0000-000000000001', 'b', 'jfk', 'public', 'orders', false,
   pg_current_snapshot(), now() - interval '5 h');
INSERT INTO snaptide.contract (site_id, site_name, refresh_group, snapshots, on_breach,
  state, age, looked_at)
VALUES ('00000000-0000-0000-0000-000000000001', 'jfk', 'g', '{a}', 'tell', 'late',
   1234, now()),
  ('00000000-0000-0000-0000-000000000001', 'jfk', 'h', '{b}', 'tell', 'kept', NULL,
   now());
INSERT INTO snaptide.publication (name) VALUES ('sales'), ('pays');
INSERT INTO snaptide.publication_table
SELECT id, 'public', name, NULL, '{}' FROM snaptide.publication;
INSERT INTO snaptide.publication_grant (publication_id, site_name, login, parameters)
SELECT id, site, site, '{"store": "3"}' FROM snaptide.publication,
  unnest('{jfk, lax}'::text[]) site WHERE name = 'sales';
INSERT INTO snaptide.image VALUES (gen_random_uuid(), 'stick', now(), now(),
  now() + interval '2 d'), (gen_random_uuid(), 'old', now(), NULL,
  now() - interval '3 h')
"""

_OF_DESTINATIONS = "SELECT name, {} FROM snaptide.destination"
_OF_QUEUE = "SELECT destination, {} FROM snaptide.defbacklog WHERE destination = 'hq'"
_OF_GROUPS = "SELECT name, {} FROM snaptide.refresh_group"
_OF_SCHEDULES = "SELECT kind, subject, {} FROM snaptide.schedule WHERE NOT disabled"
_STEPS = "SELECT refresh_group, step, {} FROM snaptide.refresh_step"
_SINCE = "extract(epoch FROM now() - {})"

#: By figure, its labels and values at a site. Parts of a histogram are figures here.
EXPECTED = {
    "snaptide_up": "SELECT 1",
    "snaptide_ready": "SELECT 1",
    "snaptide_queue_transactions": _OF_DESTINATIONS.format(
        "(SELECT count(*) FROM snaptide.deferred_transaction)"
    ),
    "snaptide_queue_calls": _OF_DESTINATIONS.format(
        "(SELECT count(*) FROM snaptide.defcall)"
    ),
    "snaptide_queue_bytes": _OF_QUEUE.format("bytes"),
    "snaptide_queue_oldest_seconds": _OF_QUEUE.format(_SINCE.format("oldest")),
    "snaptide_delivered_transactions_total": _OF_DESTINATIONS.format("delivered"),
    "snaptide_push_age_seconds": _OF_DESTINATIONS.format(_SINCE.format("last_push_at")),
    "snaptide_push_failed": _OF_DESTINATIONS.format("(last_error IS NOT NULL)::int"),
    "snaptide_contract_state": (
        "SELECT name, wanted, (SELECT count(*) FROM snaptide.destination_state"
        " WHERE destination = name AND state = wanted) FROM snaptide.destination,"
        " unnest('{disabled, excused, invalid, joining}'::text[]) wanted"
    ),
    "snaptide_parked_transactions": (
        "SELECT reason, count(*) FROM snaptide.error_transaction GROUP BY reason"
    ),
    "snaptide_parked_oldest_seconds": (
        f"SELECT coalesce(max({_SINCE.format('parked_at')}), 0)"
        " FROM snaptide.error_transaction"
    ),
    "snaptide_conflicts_resolved_total": (
        "SELECT method, sum(n) FROM (SELECT method, 1 FROM snaptide.resolution_record"
        " UNION ALL SELECT method, records FROM snaptide.purged_resolutions)"
        " AS every (method, n) GROUP BY method"
    ),
    "snaptide_refresh_age_seconds": (
        _OF_GROUPS.format(_SINCE.format("refreshed_at"))
        + " WHERE refreshed_at IS NOT NULL"
    ),
    "snaptide_refresh_failed": _OF_GROUPS.format("(last_error IS NOT NULL)::int"),
    "snaptide_refresh_seconds_bucket": (
        "SELECT refresh_group, at_most, step, sum(refreshes) OVER"
        " (PARTITION BY step ORDER BY at_most) FROM snaptide.refresh_step"
    ),
    "snaptide_refresh_seconds_count": _STEPS.format("sum(refreshes)")
    + " GROUP BY 1, 2",
    "snaptide_refresh_seconds_sum": _STEPS.format("sum(seconds)") + " GROUP BY 1, 2",
    "snaptide_refresh_rows_total": (
        "SELECT name, kind, n FROM snaptide.refresh_group, LATERAL (VALUES"
        " ('inserted', rows_inserted), ('updated', rows_updated),"
        " ('deleted', rows_deleted), ('held_back', rows_held_back)) AS each (kind, n)"
    ),
    "snaptide_held_back_rows": (
        "SELECT name, key, value::int FROM snaptide.refresh_group,"
        " jsonb_each_text(held_back)"
    ),
    "snaptide_log_bytes": (
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class"
        " WHERE relkind = 'r' AND relname LIKE 'mlog$%'"
        " AND relnamespace = 'snaptide'::regnamespace"
    ),
    # A log has no name that both sites know; all its changes were made four hours ago.
    "snaptide_log_oldest_seconds": (
        "SELECT 4 * 3600 * count(DISTINCT 1) FROM snaptide.snapshot_log"
    ),
    "snaptide_log_pinned_seconds": (
        f"SELECT site_name, max({_SINCE.format('refreshed_at')})"
        " FROM snaptide.registered_snapshot WHERE position IS NOT NULL GROUP BY 1"
    ),
    "snaptide_visible_age_seconds": (
        "SELECT site_name, refresh_group, age FROM snaptide.contract"
        " WHERE age IS NOT NULL"
    ),
    "snaptide_visible_contract_state": (
        "SELECT site_name, refresh_group, wanted, (state = wanted)::int"
        " FROM snaptide.contract,"
        " unnest('{kept, late, broken, released}'::text[]) wanted"
    ),
    "snaptide_granted_sites": (
        "SELECT name, (SELECT count(*) FROM snaptide.publication_grant"
        " WHERE publication_id = id) FROM snaptide.publication"
    ),
    "snaptide_image_expires_seconds": (
        "SELECT name, extract(epoch FROM expires_at - now()) FROM snaptide.image"
    ),
    "snaptide_answer_age_seconds": ("SELECT refresh_group, age FROM snaptide.promise"),
    "snaptide_answer_late": "SELECT refresh_group, 1 FROM snaptide.promise",
    "snaptide_schedule_late_seconds": _OF_SCHEDULES.format(
        f"greatest({_SINCE.format('next_at')}, 0)"
    ),
    "snaptide_schedule_failed": _OF_SCHEDULES.format("(last_error IS NOT NULL)::int"),
    "snaptide_check_unexplained_rows": (
        "SELECT coalesce(sum((each ->> 2)::int), 0) FROM snaptide.check_snapshot one,"
        " jsonb_array_elements(counts) each WHERE each ->> 1 = 'unexplained'"
        " AND run_id = (SELECT max(run_id) FROM snaptide.check_snapshot other"
        " WHERE other.snapshot = one.snapshot)"
    ),
    "snaptide_in_doubt_transactions": (
        "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"
    ),
    # A destination, a schedule that failed and one that is late, beat, a group; parked.
    "snaptide_findings": (
        "SELECT severity, CASE severity WHEN 'warning' THEN"
        " (SELECT count(*) FROM snaptide.destination_state)"
        " + (SELECT count(*) FROM snaptide.schedule WHERE last_error IS NOT NULL)"
        " + (SELECT count(*) FROM snaptide.schedule"
        " WHERE NOT disabled AND next_at < now())"
        " + (SELECT count(DISTINCT 1) FROM snaptide.schedule WHERE NOT disabled)"
        " + (SELECT count(*) FROM snaptide.refresh_group WHERE last_error IS NOT NULL)"
        " + (SELECT count(DISTINCT 1) FROM snaptide.error_transaction)"
        " + (SELECT count(*) FROM snaptide.contract WHERE state <> 'kept')"
        " + (SELECT count(*) FROM snaptide.promise WHERE state <> 'kept')"
        " ELSE 0 END FROM unnest('{fatal, error, warning, info}'::text[]) severity"
    ),
}


@prepared_once("hq", "jfk")
def states(sites: Directory) -> None:
    link(sites)
    limits = ", ".join(map(str, LIMITS))
    run(sites["jfk"], *AT_JFK.replace("LIMITS", limits).split(";"))
    run(sites["hq"], *AT_HQ.split(";"))


@pytest.fixture
def in_doubt(states: Directory) -> Iterator[Directory]:
    """The same with a transaction in doubt; such a database cannot be copied."""
    gid = "'snaptide:planted'"
    with application(states["jfk"]) as session:
        session.execute("SELECT 1")
        session.execute(f"PREPARE TRANSACTION {gid}")
        session.autocommit = True
        yield states
        session.execute(f"ROLLBACK PREPARED {gid}")


def test_each_figure_has_a_row() -> None:
    parts = {"histogram": ("_bucket", "_count", "_sum")}
    named = {
        f"{one.name}{part}" for one in FIGURES for part in parts.get(one.kind, ("",))
    }
    assert named == EXPECTED.keys()


def test_each_figure_is_what_sql_says(in_doubt: Directory) -> None:
    found = figures(in_doubt)
    wrong: dict[str, Any] = {}
    for name, query in EXPECTED.items():
        told = {key: value for key, value in found.items() if key[0] == name}
        expected = {
            (name, site.name, *labels): value
            for site in in_doubt.values()
            for labels, value in said(site, query)
        }
        # Ages go on meanwhile; each is hours.
        near = {key: pytest.approx(value, abs=90) for key, value in expected.items()}
        if told != (near if name.endswith("_seconds") else expected):
            wrong[name] = told, expected
        assert any(expected.values()), f"{name} is planted nowhere"
    assert wrong == {}


def said(site: Site, query: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """The labels and values that a query returns."""
    for *labels, value in run(site, query):
        yield tuple(map(label, labels)), float(value)


def label(value: object) -> str:
    """A label as Prometheus has it."""
    return "+Inf" if value == float("inf") else str(value)
