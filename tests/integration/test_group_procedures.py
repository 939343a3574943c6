"""Calls between masters of a group: each has what a procedure changes, once."""

from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import URL

import deferred
import groups
import masters
import snapshots
from groups.differences import differences
from groups.errors import GroupBusy
from groups.group import TargetType
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    found_group,
    push_all,
    push_among,
    without,
)
from tests.linked_table import ORDERS, rows, run
from tests.stories import refresh

MORE = """
CREATE PROCEDURE public.more() LANGUAGE sql
AS 'UPDATE public.orders SET qty = qty + 1'
"""


@prepared_once("hq", "lax", "bos")
def chain(sites: Directory) -> None:
    """Three masters, of which lax sends on what the others make; all may run `more`."""
    found_group(sites, "hq", "lax", "bos", via={"bos": "lax"})
    for name in ("hq", "lax", "bos"):
        run(sites[name], MORE)
        deferred.allow_procedure(sites[name], "more")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 10)")
    push_all(sites)


def full_mesh(sites: Directory) -> None:
    """Have each master exchange changes with each other."""
    groups.suspend(sites["hq"], GROUP)
    groups.set_paths(sites["hq"], GROUP, groups.full_mesh)
    groups.resume(sites["hq"], GROUP)


@pytest.fixture(params=["chain", "full mesh"])
def three(chain: Directory, request: pytest.FixtureRequest) -> Directory:
    if request.param == "full mesh":
        full_mesh(chain)
    return chain


def call(
    sites: Directory,
    *,
    to: Sequence[str] | None = None,
    here: bool = False,
    statement: str = "",
) -> None:
    """Call `more` from hq, after a change of its own."""
    with sites["hq"].begin() as connection:
        if statement:
            connection.exec_driver_sql(statement)
        deferred.call(connection, "more", destinations=to, here=here)
    push_all(sites)


def quantities(sites: Directory) -> list[object]:
    """The quantities that all three masters have."""
    return [row[2] for row in assert_masters_equal(sites, "hq", "lax", "bos")]


def test_caller_that_did_not_run_it_gets_the_changes(three: Directory) -> None:
    call(three, to=["lax"])
    assert quantities(three) == [11]
    run(three["hq"], "UPDATE orders SET qty = 20")
    push_all(three)
    assert quantities(three) == [20]


def test_caller_that_ran_it_does_not_get_them_again(three: Directory) -> None:
    call(three, here=True)
    assert quantities(three) == [11]
    assert deferred.list_errors(three["hq"]) == []


def test_after_a_retry_the_caller_gets_them(three: Directory) -> None:
    deferred.revoke_procedure(three["lax"], "more")
    call(three, to=["lax"])
    assert len(deferred.list_errors(three["lax"])) == 1
    deferred.allow_procedure(three["lax"], "more")
    [retried] = deferred.retry_errors(three["lax"])
    assert retried.applied
    push_all(three)
    assert quantities(three) == [11]


def test_own_rows_and_a_call_cannot_take_different_paths(chain: Directory) -> None:
    """What hq changed goes on from lax; what lax changes has to go to hq as well."""
    call(chain, to=["lax"], statement="INSERT INTO orders (id, qty) VALUES (2, 5)")
    [error] = deferred.list_errors(chain["lax"])
    assert "cannot go to the same masters" in error.error_message


def test_rows_that_go_no_further_may_be_beside_a_call(chain: Directory) -> None:
    full_mesh(chain)
    statement = "UPDATE orders SET qty = 15; INSERT INTO orders (id, qty) VALUES (2, 5)"
    call(chain, to=["lax"], statement=statement)
    assert quantities(chain) == [16, 6]


def test_read_only_master_makes_no_changes_by_a_call(chain: Directory) -> None:
    groups.suspend(chain["hq"], GROUP)
    groups.remove_master(chain["hq"], GROUP, "bos")
    groups.resume(chain["hq"], GROUP)
    groups.add_master(
        chain["hq"], GROUP, "bos", target_type=TargetType.PROTECTED_READ_ONLY
    )
    push_all(chain)
    call(chain, to=["bos"])
    [error] = deferred.list_errors(chain["bos"])
    assert "is read-only at this master" in error.error_message
    assert rows(chain["bos"]) == rows(chain["hq"])


@pytest.mark.parametrize("decision", ["delete", "edit"])
def test_decision_about_a_call_alone_lists_all_tables(
    three: Directory, decision: str
) -> None:
    lax = three["lax"]
    for name in ("hq", "lax", "bos"):
        run(
            three[name],
            "CREATE PROCEDURE public.most(n int) LANGUAGE sql"
            " AS 'UPDATE public.orders SET qty = qty + n'",
        )
        if name != "lax":
            deferred.allow_procedure(three[name], "most")
    with three["hq"].begin() as connection:
        deferred.call(connection, "most", [1], here=True)
    push_all(three)
    [error] = deferred.list_errors(lax)
    if decision == "delete":
        deferred.delete_errors(lax, [error.id])
    else:
        deferred.allow_procedure(lax, "most")
        edit = deferred.Edit(call="most", column="1", value="5")
        [retried] = deferred.retry_errors(lax, [error.id], edits=[edit])
        assert retried.applied, retried
    push_all(three)
    for tables in (False, True):
        assert ("orders", None) in {
            (one.table, one.rows) for one in differences(lax, tables=tables)
        }


def test_tables_stay_listed_while_a_call_is_parked(chain: Directory) -> None:
    """All masters are equal, until the one where it waits runs it after all."""
    full_mesh(chain)
    hq, lax, bos = (chain[name] for name in ("hq", "lax", "bos"))
    for name in ("lax", "bos"):
        deferred.revoke_procedure(chain[name], "more")
    call(chain, here=True)
    deferred.delete_errors(lax)
    run(
        hq,
        "ALTER TABLE orders DISABLE TRIGGER USER",
        "UPDATE orders SET qty = 10",
        "ALTER TABLE orders ENABLE TRIGGER USER",
    )
    assert differences(lax, tables=True) == []
    deferred.allow_procedure(bos, "more")
    assert [one.applied for one in deferred.retry_errors(bos)] == [True]
    push_all(chain)
    assert rows(hq) != rows(bos)
    found = differences(lax, tables=True)
    assert [(one.table, one.rows) for one in found] == [("orders", None)]


def test_tables_stay_listed_while_a_call_is_on_its_way(chain: Directory) -> None:
    """All masters are equal, until the others run what ran here before."""
    full_mesh(chain)
    lax = chain["lax"]
    deferred.revoke_procedure(lax, "more")
    call(chain, here=True)
    deferred.delete_errors(lax)
    deferred.allow_procedure(lax, "more")
    with lax.begin() as connection:
        deferred.call(connection, "more", here=True)
    assert differences(lax, tables=True) == []
    push_all(chain)
    found = differences(lax, tables=True)
    assert [(one.table, one.rows) for one in found] == [("orders", None)]


@pytest.fixture
def half_run(make_sites: Callable[..., Directory]) -> Directory:
    """A call of hq ran there and waits, parked, at lax; jfk has a snapshot of lax."""
    sites = make_sites("hq", "lax", "bos", "jfk")
    found_group(sites, "hq", "lax")
    for name in ("hq", "lax"):
        masters.create_snapshot_log(sites[name], "orders")
        run(sites[name], MORE)
    deferred.allow_procedure(sites["hq"], "more")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 10)")
    push_among(sites, "hq", "lax")
    snapshots.create(sites["jfk"], "orders", master="lax", updatable=True)
    refresh(sites["jfk"], "orders")
    with sites["hq"].begin() as connection:
        deferred.call(connection, "more", destinations=["lax"], here=True)
    push_among(sites, "hq", "lax")
    assert len(deferred.list_errors(sites["lax"])) == 1
    return sites


def test_no_master_joins_while_a_call_is_parked(half_run: Directory) -> None:
    """The copy would lack what it does, and no master sends that on."""
    hq, lax, bos = (half_run[name] for name in ("hq", "lax", "bos"))
    run(bos, f"CREATE TABLE orders ({ORDERS})")
    with pytest.raises(GroupBusy, match="1 transaction that may change orders waits"):
        groups.join_master(hq, GROUP, "bos", source="lax")
    deferred.allow_procedure(lax, "more")
    assert [one.applied for one in deferred.retry_errors(lax)] == [True]
    groups.join_master(hq, GROUP, "bos", source="lax")
    assert quantities(half_run) == [11]


def test_masters_are_not_level_while_a_call_is_parked(half_run: Directory) -> None:
    """The new master has what it did in no log that the snapshot reads."""
    jfk = half_run["jfk"]
    report = groups.switch_master(jfk, "orders", to="hq")
    assert report.why == "1 transaction is parked at lax that may change orders"
    snapshots.refresh(jfk, "orders")
    assert rows(jfk)[0][2] == rows(half_run["hq"])[0][2] == 11


@pytest.mark.usefixtures("spark")
def test_a_switch_lists_what_a_lost_master_may_have_changed_by_procedures(
    chain: Directory, make_sites: Callable[..., Directory]
) -> None:
    """A call is not sent again: it was made for that master, which has run it."""
    with Directory({**urls(chain), **urls(make_sites("jfk"))}) as sites:
        hq, jfk = sites["hq"], sites["jfk"]
        for name in ("hq", "lax"):
            masters.create_snapshot_log(sites[name], "orders")
        snapshots.create(jfk, "orders", master="hq", updatable=True)
        refresh(jfk, "orders")
        with jfk.begin() as connection:
            connection.exec_driver_sql("UPDATE orders SET name = 'x' WHERE id = 1")
            deferred.call(connection, "more", destinations=["hq"])
        assert deferred.push(jfk).errors == 0
        with without(sites, "hq") as left:
            groups.switch_master(left["jfk"], "orders", to="lax")
            push_among(left, "jfk", "lax", "bos")
        [told] = differences(sites["lax"])
        assert (told.table, told.key) == ("orders", None)
        assert "procedures" in told.why
        assert rows(hq) != rows(sites["lax"])


def urls(sites: Directory) -> dict[str, URL]:
    return {one.name: one.url for one in sites.values()}
