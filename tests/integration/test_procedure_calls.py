"""Procedures that transactions call run at the destination, in order, exactly once."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

import deferred
import groups
from deferred.batches import procedure_call
from deferred.batches.called import ProcedureCall
from deferred.errors import NoDestination
from deferred.procedures import routines
from deferred.pushing import apply_groups
from groups import Path
from sites import Directory, Site, faults
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import as_refresh, link, parked, queued, rows, run

RAISE = """
CREATE PROCEDURE public.raise_all(step int) LANGUAGE sql
AS 'UPDATE public.orders SET qty = qty + step'
"""


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two orders at both sites, and a procedure that hq allows."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'n1', 10), (2, 'n2', 20)")
        run(site, RAISE)
    deferred.allow_procedure(sites["hq"], "raise_all")


@pytest.fixture(autouse=True)
def no_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test find the routines that another one registered."""
    monkeypatch.setattr(routines.REGISTRY, "_registered", {})


def quantities(site: Site) -> list[int]:
    return [row[2] for row in rows(site)]


def change(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement)


def test_a_procedure_runs_between_the_row_changes(orders: Directory) -> None:
    """Before it an order is set, after it another is doubled on what it made."""
    hq, jfk = orders["hq"], orders["jfk"]
    with jfk.begin() as connection:
        change(connection, "UPDATE public.orders SET qty = 100 WHERE id = 1")
        deferred.call(connection, "raise_all", [5], here=True)
        change(connection, "UPDATE public.orders SET qty = qty * 2 WHERE id = 2")
    assert quantities(jfk) == [105, 50]
    assert quantities(hq) == [10, 20]
    report = deferred.push(jfk)
    assert (report.transactions, report.errors) == (1, 0)
    assert quantities(hq) == [105, 50]
    assert queued(jfk) == 0


def test_one_that_runs_only_there_leaves_the_site_alone(orders: Directory) -> None:
    with orders["jfk"].begin() as connection:
        deferred.call(connection, "raise_all", [5])
    assert quantities(orders["jfk"]) == [10, 20]
    deferred.push(orders["jfk"])
    assert quantities(orders["hq"]) == [15, 25]


def test_a_rolled_back_transaction_calls_nothing(orders: Directory) -> None:
    with orders["jfk"].connect() as connection:
        deferred.call(connection, "raise_all", [5], here=True)
        connection.rollback()
    assert deferred.push(orders["jfk"]).transactions == 0
    assert quantities(orders["hq"]) == quantities(orders["jfk"]) == [10, 20]


def test_a_routine_gets_a_connection_and_values(orders: Directory) -> None:
    seen = []

    @deferred.procedure("pricing.set")
    def set_price(connection: Connection, number: int, price: Decimal) -> None:
        seen.append((number, price))
        change(connection, f"UPDATE orders SET price = {price} WHERE id = {number:d}")

    with orders["jfk"].begin() as connection:
        deferred.call(connection, "pricing.set", [2, Decimal("7.50")])
    deferred.push(orders["jfk"])
    assert seen == [(2, Decimal("7.50"))]
    assert [row[3] for row in rows(orders["hq"])] == [None, Decimal("7.50")]


def test_changes_of_a_procedure_are_logged_there_and_not_sent_back(
    orders: Directory,
) -> None:
    """Other snapshots see them; this site's own ones are kept, in small letters."""
    hq, jfk = orders["hq"], orders["jfk"]
    logged = len(rows(hq, "snaptide.mlog$_orders"))
    with jfk.begin() as connection:
        deferred.call(connection, "raise_all", [5], here=True)
    assert run(
        jfk, "SELECT operation, destination FROM snaptide.defcall ORDER BY 1"
    ) == [
        ("P", "hq"),
        ("u", "hq"),
        ("u", "hq"),
    ]
    deferred.push(jfk)
    assert len(rows(hq, "snaptide.mlog$_orders")) == logged + 2
    assert quantities(hq) == [15, 25]


VALUES = [
    ("integer", "7", 7),
    ("bigint", "9000000000", 9_000_000_000),
    ("numeric", "1.10", Decimal("1.10")),
    ("boolean", "t", True),
    ("text", 'it\'s 5 % of \\ "all" ☃', 'it\'s 5 % of \\ "all" ☃'),
    ("date", "infinity", sa.cast("infinity", sa.Date)),
    ("double precision", "0.1", 0.1),
    ("double precision", "NaN", sa.cast("NaN", sa.Double)),
    ("bytea", "\\x00ff", b"\x00\xff"),
    ("jsonb", '{"a": [1, null]}', {"a": [1, None]}),
    ("character", "ab  ", sa.cast("ab", sa.CHAR(4))),
    ("interval", "1 mon 2 days", sa.cast("1 month 2 days", sa.Interval)),
    (
        "timestamp with time zone",
        "2013-01-01 12:00:00.000001+00",
        sa.cast("2013-01-01 13:00:00.000001+01", sa.DateTime(timezone=True)),
    ),
    ("integer[]", "[0:1]={1,NULL}", sa.text("'[0:1]={1,NULL}'::int[]")),
    ('"Odd %s".mood', "so so", sa.text("'so so'::\"Odd %s\".mood")),
    ('"Odd %s".pair', '(1,"a,b")', sa.text("ROW(1, 'a,b')::\"Odd %s\".pair")),
    ("int4range", "[1,5)", sa.text("'[1,4]'::int4range")),
]


ODD = [
    'CREATE SCHEMA "Odd %s"',
    "CREATE TYPE \"Odd %s\".mood AS ENUM ('so so')",
    'CREATE TYPE "Odd %s".pair AS (a int, b text)',
]
NOTE = """
CREATE TABLE public.noted (type text, value text);
CREATE FUNCTION "Odd %s"."no("(v anyelement) RETURNS void LANGUAGE sql AS
 'INSERT INTO public.noted VALUES (format_type(pg_typeof(v), NULL), format(''%s'', v))'
"""


def test_arguments_keep_their_types(orders: Directory) -> None:
    """A function with an odd name notes what it was given, with the type it has."""
    hq, jfk = orders["hq"], orders["jfk"]
    run(jfk, *ODD)
    run(hq, *ODD, NOTE)
    deferred.allow_procedure(hq, '"Odd %s"."no("')
    with jfk.begin() as connection:
        change(connection, "SET LOCAL datestyle = 'SQL, DMY'")
        change(connection, "SET LOCAL timezone = 'Asia/Tokyo'")
        change(connection, "SET LOCAL intervalstyle = 'iso_8601'")
        for _, _, value in VALUES:
            deferred.call(connection, '"Odd %s"."no("', [value])
    report = deferred.push(jfk)
    assert report.errors == 0, deferred.list_errors(hq)
    assert run(hq, "SELECT * FROM noted") == [
        (type_, text) for type_, text, _ in VALUES
    ]


def test_a_purge_forgets_calls_that_are_answered(orders: Directory) -> None:
    jfk = orders["jfk"]
    everything = {"retention": timedelta(0), "fold_after": timedelta(days=9)}
    with jfk.begin() as connection:
        deferred.call(connection, "raise_all", [5])
    assert deferred.purge(jfk, **everything).calls == 0
    deferred.push(jfk)
    assert deferred.purge(jfk).calls == 0
    report = deferred.purge(jfk, **everything)
    assert (report.transactions, report.calls) == (1, 1)
    assert run(jfk, "SELECT count(*) FROM snaptide.procedure_call") == [(0,)]
    purged, answered = run(
        jfk, "SELECT purged_batch, batch_no FROM snaptide.destination"
    )[0]
    assert purged == answered


def test_calls_are_read_with_what_is_shipped(
    orders: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of the whole batch, which may have large arguments."""
    jfk = orders["jfk"]
    read = procedure_call.by_transaction
    held: list[int] = []

    def counted(*part: Any) -> dict[int, tuple[ProcedureCall, ...]]:
        found = read(*part)
        held.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(procedure_call, "by_transaction", counted)
    monkeypatch.setattr(apply_groups, "SHIPPED", 2)
    for step in range(1, 6):
        with jfk.begin() as connection:
            deferred.call(connection, "raise_all", [step])
    assert deferred.push(jfk, group_max_calls=0).transactions == 5
    assert held == [2, 2, 1]
    assert quantities(orders["hq"]) == [25, 35]


def test_each_master_gets_a_change_once(
    make_sites: Callable[..., Directory],
) -> None:
    """One runs the procedure too; the other one is sent what it changed here."""
    sites = make_sites("a", "b", "c")
    found_group(sites, "a", "b", "c")
    run(sites["a"], "INSERT INTO orders VALUES (1, 'n1', 10), (2, 'n2', 20)")
    push_all(sites)
    for site in sites.values():
        run(site, RAISE)
    deferred.allow_procedure(sites["b"], "raise_all")
    with sites["a"].begin() as connection:
        deferred.call(connection, "raise_all", [5], destinations=["b"], here=True)
        change(connection, "UPDATE public.orders SET qty = qty * 2 WHERE id = 1")
    assert push_all(sites) == 2
    for site in sites.values():
        assert quantities(site) == [30, 25]
        assert parked(site) == []


def answered_by_one_of_two(make_sites: Callable[..., Directory]) -> Directory:
    """Masters b and c run a procedure each, what b's one made at a is for c too."""
    sites = make_sites("a", "b", "c")
    found_group(sites, "a", "b", "c")
    run(sites["a"], "INSERT INTO orders VALUES (1, 'n1', 10), (2, 'n2', 20)")
    push_all(sites)
    for site in sites.values():
        run(site, RAISE)
        deferred.allow_procedure(site, "raise_all")
    with sites["a"].begin() as connection:
        deferred.call(connection, "raise_all", [5], destinations=["b"], here=True)
        deferred.call(connection, "raise_all", [0], destinations=["c"])
    deferred.push(sites["a"], "b")
    return sites


def test_a_purge_keeps_what_says_who_makes_a_change(
    make_sites: Callable[..., Directory],
) -> None:
    """One master has long answered, when another gets what it changed here."""
    sites = answered_by_one_of_two(make_sites)
    deferred.purge(sites["a"], retention=timedelta(0))
    called = "SELECT count(*) FROM snaptide.procedure_call"
    assert run(sites["a"], called) == [(2,)]
    # The call at c changes nothing there, but rows are written, which are sent to both.
    assert push_all(sites) == 3
    for site in sites.values():
        assert quantities(site) == [15, 25]
    deferred.purge(sites["a"], retention=timedelta(0))
    assert run(sites["a"], called) == [(0,)]


def test_a_change_of_which_nothing_is_known_is_sent(
    make_sites: Callable[..., Directory],
) -> None:
    """What was purged by a version that knew no better is not lost."""
    sites = answered_by_one_of_two(make_sites)
    run(sites["a"], "DELETE FROM snaptide.procedure_call WHERE destinations = '{b}'")
    push_all(sites)
    assert quantities(sites["c"]) == [15, 25]


def test_a_procedure_goes_on_as_row_changes(
    make_sites: Callable[..., Directory],
) -> None:
    """The master behind the one that runs it is sent what it changed there."""
    sites = make_sites("a", "b", "c")
    found_group(sites, "a", "b", "c", via={"c": "b"})
    run(sites["a"], "INSERT INTO orders VALUES (1, 'n1', 10), (2, 'n2', 20)")
    push_all(sites)
    for name in ("a", "b"):
        run(sites[name], RAISE)
    deferred.allow_procedure(sites["b"], "raise_all")
    with sites["a"].begin() as connection:
        change(connection, "UPDATE public.orders SET qty = 0 WHERE id = 1")
        deferred.call(connection, "raise_all", [5], here=True)
    assert push_all(sites) == 2
    for site in sites.values():
        assert quantities(site) == [5, 25]
        assert parked(site) == []


def test_a_purge_notes_nothing_of_calls_that_stay(
    make_sites: Callable[..., Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One master has long answered, another has not yet: its call can still be sent."""
    sites = make_sites("hq", "lax", "jfk")
    link(sites)
    link(sites, "items", "id int PRIMARY KEY", master="lax")
    for name in ("hq", "lax"):
        run(sites[name], "CREATE PROCEDURE raise_all(step int) LANGUAGE sql AS ''")
        deferred.allow_procedure(sites[name], "raise_all")
    with sites["jfk"].begin() as connection:
        for name in ("hq", "lax"):
            deferred.call(connection, "raise_all", [5], destinations=[name])
    deferred.push(sites["jfk"], "hq")

    def break_off(point: str) -> None:
        if point == "push.before_commit":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", break_off)
        with pytest.raises(KeyboardInterrupt):
            deferred.push(sites["jfk"], "lax")

    deferred.purge(sites["jfk"], retention=timedelta(0))

    kept = "SELECT destinations FROM snaptide.procedure_call"
    assert run(sites["jfk"], kept) == [(["lax"],)]
    noted = "SELECT purged_batch FROM snaptide.destination ORDER BY name"
    assert run(sites["jfk"], noted) == [(1,), (0,)]


def test_calls_go_only_where_changes_go(make_sites: Callable[..., Directory]) -> None:
    """What one changes at a neighbour goes on: behind it, it must not run as well."""
    sites = make_sites("a", "b", "c")
    found_group(sites, "a", "b", "c")
    groups.set_paths(sites["a"], GROUP, groups.chain)
    for site in sites.values():
        run(site, RAISE)
    run(sites["a"], "INSERT INTO orders (id, qty) VALUES (1, 0)")
    push_all(sites)
    deferred.allow_procedure(sites["b"], "raise_all")
    deferred.allow_procedure(sites["c"], "raise_all")
    with sites["a"].begin() as connection:
        with pytest.raises(NoDestination, match="destinations are: b"):
            deferred.call(connection, "raise_all", [1], destinations=["b", "c"])
        deferred.call(connection, "raise_all", [1], here=True)
    push_all(sites)
    assert [quantities(site) for site in sites.values()] == [[1]] * 3
    assert [parked(site) for site in sites.values()] == [[]] * 3


def test_calls_go_no_way_that_is_for_others_changes(
    make_sites: Callable[..., Directory],
) -> None:
    """To c the first master sends what b changes; its own comes there from b."""
    sites = make_sites("a", "b", "c")
    found_group(sites, "a", "b", "c")
    ways = ["a a b", "a b c", "b b a", "b a c", "c c a", "c a b"]
    paths = [
        Path(source=source, local=local, target=target)
        for source, local, target in map(str.split, ways)
    ]
    groups.set_paths(sites["a"], GROUP, lambda names: paths)
    for site in sites.values():
        run(site, RAISE)
        deferred.allow_procedure(site, "raise_all")
    run(sites["a"], "INSERT INTO orders (id, qty) VALUES (1, 0)")
    push_all(sites)
    with sites["a"].begin() as connection:
        with pytest.raises(NoDestination, match="destinations are: b"):
            deferred.call(connection, "raise_all", [1], destinations=["c"])
        deferred.call(connection, "raise_all", [1], here=True)
    push_all(sites)
    assert [quantities(site) for site in sites.values()] == [[1]] * 3
    assert [parked(site) for site in sites.values()] == [[]] * 3
