"""A site that is upgraded while it works: what it records, and what it has recorded."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest

import deferred
import masters
import snapshots
from groups.relay import former_senders
from sites import Directory, Site
from snaptide import migrate
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    found_group,
    group_id,
    push_all,
)
from tests.linked_table import calls, link, rows, run, run_everywhere

#: What ours was like before: the two that record changes, as far as that matters here.
OLD_LOG = """
CREATE OR REPLACE FUNCTION snaptide."mlog$_orders"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO snaptide."mlog$_orders" (kind, xid, slot, k1)
    SELECT 'U', pg_current_xact_id(), 0, id FROM snaptide_new;
    RETURN NULL;
END $$
"""
OLD_QUEUE = """
CREATE OR REPLACE FUNCTION snaptide."def$_orders"() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO snaptide."def$_orders"
        (call_no, xid, kind, moved, o1, o2, o3, o4, o5, n1, n2, n3, n4, n5)
    SELECT nextval('snaptide.order_no'), pg_current_xact_id(), 'U', false,
        o.id, o.name, o.qty, o.price, o.at, n.id, n.name, n.qty, n.price, n.at
    FROM snaptide_new n FULL JOIN snaptide_old o ON n.id = o.id;
    INSERT INTO snaptide.deferred_transaction AS known (xid, origin_user)
    VALUES (pg_current_xact_id(), session_user) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$
"""
#: The same, of what coordinators ask.
OLD_CAPTURED = """
CREATE FUNCTION snaptide.captured_calls(after bigint, most integer)
RETURNS TABLE (queue_id integer, call_no bigint, kind text)
LANGUAGE sql AS 'SELECT 1, 2::bigint, ''U''::text'
"""
CAPTURED = "SELECT pg_get_functiondef('snaptide.captured_calls'::regproc)"
OURS = """
SELECT proname, pg_get_functiondef(oid) FROM pg_proc
WHERE pronamespace = 'snaptide'::regnamespace AND proname LIKE '%$\\_orders'
"""


def test_living_logs_and_queues_record_as_the_new_version_does(
    sites: Directory,
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 'one'), (2, 'two')")
    before = {site.name: _functions(site) for site in (hq, jfk)}
    for site, old in ((hq, OLD_LOG), (jfk, OLD_QUEUE)):
        migrate.downgrade(site, "0015")
        run(site, old)
        assert _functions(site) != before[site.name]
    run(jfk, "UPDATE orders SET qty = 1 WHERE id = 1")
    for site in (hq, jfk):
        migrate.upgrade(site)
        assert _functions(site) == before[site.name]

    run(jfk, "ALTER TABLE orders RENAME qty TO pieces")
    run(
        jfk,
        "UPDATE orders SET pieces = 2 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
    )
    assert [operation for _, operation, _, _ in calls(jfk)] == ["U", "U", "D"]
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == rows(jfk) == [(1, "one", 2, None, None)]
    kinds = 'SELECT DISTINCT kind FROM snaptide."mlog$_orders" ORDER BY 1'
    assert run(hq, kinds) == [("D",), ("I",), ("U",)]


def test_a_column_that_was_renamed_is_recorded_by_the_new_version(
    sites: Directory,
) -> None:
    """The queue of the older version knew names alone."""
    jfk = sites["jfk"]
    link(sites)
    migrate.downgrade(jfk, "0041")
    migrate.upgrade(jfk)
    run(jfk, "ALTER TABLE orders RENAME qty TO pieces")
    before = _functions(jfk)
    migrate.upgrade(jfk)
    assert _functions(jfk) != before
    run(jfk, "INSERT INTO orders (id, pieces) VALUES (1, 2)")
    assert deferred.push(jfk).errors == 0
    assert rows(sites["hq"]) == [(1, None, 2, None, None)]


def test_states_of_destinations_outlast_a_step_down_and_up(sites: Directory) -> None:
    """Each of them was a column, or two, of the table `destination`."""
    hq = sites["hq"]
    found_group(sites, "hq")
    run(
        hq,
        "INSERT INTO snaptide.destination (name, window_end)"
        " SELECT name, pg_current_snapshot() FROM unnest('{jfk,lax}'::text[]) name",
        "INSERT INTO snaptide.destination_state (destination, state, group_id, reason)"
        " SELECT 'jfk', 'joining', id, 'group ' || name"
        " FROM snaptide.replication_group",
        "INSERT INTO snaptide.destination_state (destination, state, since, reason)"
        " VALUES ('jfk', 'disabled', now(), 'unknown'),"
        " ('jfk', 'invalid', '2001-02-03', 'too old'),"
        " ('lax', 'excused', now(), 'unknown')",
    )
    states = (
        "SELECT destination, state, group_id, reason FROM snaptide.destination_state"
        " ORDER BY destination, state"
    )
    before = run(hq, states)
    migrate.downgrade(hq, "0048")
    assert run(
        hq,
        "SELECT disabled, cardinality(joins), excused, invalid_since, invalid_reason"
        " FROM snaptide.destination ORDER BY name",
    ) == [
        (True, 1, False, datetime(2001, 2, 3, tzinfo=UTC), "too old"),
        (False, 0, True, None, None),
    ]
    migrate.upgrade(hq)
    assert run(hq, states) == before


def test_groups_had_names_where_they_have_ids(
    make_sites: Callable[..., Directory],
) -> None:
    """What is on its way goes on, and comes once."""
    sites = make_sites("a", "b", "c")
    found_group(sites, "a", "b", "c", via={"c": "b"})
    a, b = sites["a"], sites["b"]
    with b.transaction() as connection:
        former_senders.forbid(connection, group_id(b), "rio")
    run(a, "INSERT INTO orders (id) VALUES (1)")
    deferred.push(a, "b")
    known = [
        "SELECT sources FROM snaptide.deferred_transaction",
        "SELECT group_id, source, sender FROM snaptide.arrival",
        "SELECT group_id, sender FROM snaptide.former_sender",
        "SELECT group_id, snapshot FROM snaptide.queue",
        *(
            f"SELECT * FROM snaptide.group_{part} ORDER BY 2, 3"
            for part in ("master", "table", "path")
        ),
    ]
    before = [run(b, one) for one in known]
    assert before[0] == [({str(group_id(b)): "a"},)]
    migrate.downgrade(b, "0051")
    assert run(b, known[0]) == [({GROUP: "a"},)]
    migrate.upgrade(b)
    assert [sorted(run(b, one)) for one in known[1:]] == [
        sorted([*row]) for row in before[1:]
    ]
    assert run(b, known[0]) == before[0]
    run(b, "INSERT INTO orders (id) VALUES (2)")
    push_all(sites)
    assert len(assert_masters_equal(sites, "a", "b", "c")) == 2


def test_a_site_that_was_switched_watches_for_its_group(sites: Directory) -> None:
    """It has the name of the group, of which it is no master, and snapshots of it."""
    jfk, group = sites["jfk"], uuid.uuid4()
    link(sites)
    run(
        jfk,
        "INSERT INTO snaptide.refresh_group (name, master, master_id)"
        " VALUES ('orders', 'hq', gen_random_uuid())",
        "INSERT INTO snaptide.snapshot (schema, name, refresh_group, base_table,"
        " extra_table, log_view, master_schema, master_table, columns,"
        " identity_columns, updatable, schema_group) VALUES ('public', 'orders',"
        " 'orders', 'o', 'e', 'l', 'public', 'orders', '{id}', '{id}', true,"
        f" '{group}')",
        "INSERT INTO snaptide.second_way (group_id, origin, first_no, end_no, alone,"
        f" whole) VALUES ('{group}', 'jfk', 7, 9, true, true)",
    )
    watched = "SELECT group_id, first_no, end_no, alone, whole FROM snaptide.second_way"
    before = run(jfk, watched)
    migrate.downgrade(jfk, "0051")
    run(jfk, "UPDATE snaptide.second_way SET replication_group = 'sales'")
    migrate.upgrade(jfk, "0052")
    assert run(jfk, watched) == before


OLD_GUARD = """
CREATE OR REPLACE FUNCTION snaptide."guard$_{table}"() RETURNS trigger
LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$
"""
GUARDS = """
SELECT c.relname, t.tgname, pg_get_triggerdef(t.oid), p.prosrc
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgname LIKE 'snaptide\\_guard%' AND t.tgenabled = 'A' ORDER BY 1, 2
"""


@pytest.mark.usefixtures("spark")
def test_guards_refuse_as_the_new_version_does(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    found_group(sites, "hq")
    masters.create_snapshot_log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq")
    snapshots.refresh(jfk, "orders")
    for site, name, base in (
        (hq, "orders", "orders"),
        (jfk, "orders", '"snap$_orders"'),
    ):
        before = run(site, GUARDS)
        assert len(before) == 2
        run(
            site,
            OLD_GUARD.format(table=name),
            f"DROP TRIGGER snaptide_guard_effects ON {base}",
        )
        migrate.upgrade(site)
        assert run(site, GUARDS) == before


def test_what_coordinators_ask_gave_other_columns_before(sites: Directory) -> None:
    jfk = sites["jfk"]
    link(sites)
    before = run(jfk, CAPTURED)
    run(jfk, "DROP FUNCTION snaptide.captured_calls(bigint, integer)")
    run(jfk, OLD_CAPTURED)
    migrate.upgrade(jfk)
    assert run(jfk, CAPTURED) == before


def test_what_cannot_record_any_more_is_left_as_it_is(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    link(sites, "gone", "id int PRIMARY KEY")
    run(hq, "ALTER TABLE orders DROP id", "DROP TABLE gone")
    run(jfk, "ALTER TABLE orders DROP qty", "DROP TABLE gone")
    before = {site.name: _functions(site) for site in (hq, jfk)}
    for site in (hq, jfk):
        migrate.upgrade(site)
        assert _functions(site) == before[site.name]
    run(hq, "INSERT INTO orders (name) VALUES ('goes on')")
    with pytest.raises(psycopg.errors.UndefinedColumn, match="is gone from this table"):
        run(jfk, "INSERT INTO orders (id) VALUES (1)")
    assert len(masters.list_snapshot_logs(hq)) == 2


def _functions(site: Site) -> list[tuple[object, ...]]:
    return sorted(run(site, OURS))
