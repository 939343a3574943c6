"""A site that is upgraded while it works: what it records, and what it has recorded."""

import psycopg
import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from snaptide import migrate
from tests.grouped import (
    found_group,
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
    jfk = sites["jfk"]
    link(sites)
    run(jfk, "ALTER TABLE orders RENAME qty TO pieces")
    before = _functions(jfk)
    migrate.upgrade(jfk)
    assert _functions(jfk) != before
    run(jfk, "INSERT INTO orders (id, pieces) VALUES (1, 2)")
    assert deferred.push(jfk).errors == 0
    assert rows(sites["hq"]) == [(1, None, 2, None, None)]


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
