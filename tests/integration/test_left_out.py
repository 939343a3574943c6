"""A parked transaction is retried without some of its calls, which stay parked."""

from __future__ import annotations

import json

import pytest

import deferred
from deferred import BadEdit, BadSkip, Edit, RetryReport
from deferred.parked import differing
from deferred.parked.retry import retry
from masters import rules
from sites import Directory, Site
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.grouped import found_group, push_all
from tests.linked_table import as_refresh, link, parked, rows, run, scalar
from tests.three_masters import unseen

ORDERS = "INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"
CHANGED = "UPDATE orders SET qty = 99 WHERE id = 2"


@prepared_once("hq", "jfk")
def family(sites: Directory) -> None:
    """Orders with lines, the same at both sites; hq has changed the second order."""
    link(sites, "orders", "id int PRIMARY KEY, name text UNIQUE, qty int")
    lines = "id int PRIMARY KEY, of int REFERENCES orders (id), n int"
    link(sites, "lines", lines, at_site=lines.replace("n int", "n bigint"))
    for site in sites.values():
        as_refresh(site, ORDERS)
    as_refresh(sites["hq"], CHANGED)


def park(sites: Directory, *statements: str) -> int:
    """Push a transaction that hq parks; its number."""
    run(sites["jfk"], *statements)
    deferred.push(sites["jfk"])
    return int(max(number for number, *_ in parked(sites["hq"])))


def call_of(site: Site, number: int, key: str, table: str = "orders") -> int:
    """The number of the call that changes or makes a row."""
    [found] = [
        call.call_no
        for call in deferred.show_error(site, number).calls
        if call.table.endswith(table) and (call.new or call.old or {})["id"] == key
    ]
    return found


def retried(site: Site, number: int, *keys: str, edit: str = "") -> RetryReport:
    """Retry a transaction without the calls of some orders."""
    skip = [call_of(site, number, key) for key in keys]
    edits = [Edit.parse(edit)] if edit else []
    [report] = deferred.retry_errors(site, [number], edits=edits, skip=skip)
    return report


def test_the_others_are_applied_and_the_call_stays_parked(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    report = retried(hq, number, "2")
    assert (report.applied, report.left_out, report.error_id) == (True, 1, number)
    assert rows(hq) == [(1, "a", 11), (2, "b", 99), (3, "c", 31)]
    left = deferred.show_error(hq, number)
    assert [(call.old or {})["id"] for call in left.calls] == ["2"]
    assert (left.reason, left.error_code) == ("conflict", "SNP-362")
    assert left.error_message.startswith("Left out by an operator")
    assert "in conflict" in left.error_message
    # The rest of it is retried like any other.
    [again] = deferred.retry_errors(hq, [number])
    assert not again.applied
    as_refresh(hq, "UPDATE orders SET qty = 20 WHERE id = 2")
    [again] = deferred.retry_errors(hq)
    assert (again.applied, again.left_out) == (True, 0)
    assert rows(hq) == [(1, "a", 11), (2, "b", 21), (3, "c", 31)]
    assert parked(hq) == []
    assert scalar(hq, "SELECT count(*) FROM snaptide.error_footprint") == 0


def test_a_row_that_refers_to_one_left_out_follows_it(family: Directory) -> None:
    hq = family["hq"]
    as_refresh(hq, "INSERT INTO orders VALUES (4, 'theirs', 0)")
    number = park(
        family,
        "INSERT INTO orders VALUES (4, 'mine', 1), (5, 'five', 1)",
        "INSERT INTO lines VALUES (40, 4, 1), (50, 5, 1)",
    )
    assert retried(hq, number, "4").left_out == 2
    assert rows(hq, "lines") == [(50, 5, 1)]
    left = deferred.show_error(hq, number)
    assert {(call.new or {})["id"]: call.conflict for call in left.calls}["40"] == (
        "refers to a row that is left out"
    )
    edits = [Edit.parse("orders.id=6"), Edit.parse("orders.name=six")]
    edits.append(Edit.parse("lines.of=6"))
    [report] = deferred.retry_errors(hq, [number], edits=edits)
    assert report.applied, report.reason
    assert rows(hq, "lines") == [(40, 6, 1), (50, 5, 1)]


def test_those_that_wait_for_it_go_on_waiting(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1 WHERE id < 3")
    waiting = park(family, "UPDATE orders SET qty = qty + 1 WHERE id = 2")
    assert retried(hq, number, "2").applied
    assert [(one, waits) for one, _, _, waits in parked(hq)][1] == (waiting, [number])
    [report] = deferred.retry_errors(hq, [waiting])
    assert f"waits for {number}" in report.reason
    # What comes now waits only if it needs what is left.
    run(family["jfk"], "UPDATE orders SET qty = qty + 1 WHERE id = 1")
    assert deferred.push(family["jfk"]).errors == 0
    last = park(family, "UPDATE orders SET name = 'bb' WHERE id = 2")
    assert number in {one: waits for one, _, _, waits in parked(hq)}[last]
    as_refresh(hq, "UPDATE orders SET qty = 20 WHERE id = 2")
    assert all(report.applied for report in deferred.retry_errors(hq))
    assert rows(hq) == rows(family["jfk"])


def test_other_calls_get_other_values(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    first = call_of(hq, number, "1")
    assert retried(hq, number, "2", edit=f"{first}.qty=7").applied
    assert rows(hq)[:2] == [(1, "a", 7), (2, "b", 99)]


def test_those_that_wait_learn_of_another_key(family: Directory) -> None:
    hq = family["hq"]
    number = park(
        family,
        "UPDATE orders SET qty = 21 WHERE id = 2",
        "INSERT INTO orders VALUES (4, 'four', 1)",
    )
    waiting = park(family, "UPDATE orders SET qty = 2 WHERE id = 4")
    made = call_of(hq, number, "4")
    assert retried(hq, number, "2", edit=f"{made}.id=9").applied
    after = {one: (code, waits) for one, _, code, waits in parked(hq)}
    assert after[waiting] == ("SNP-368", [number])
    later = park(family, "INSERT INTO lines VALUES (40, 4, 1)")
    assert {one: code for one, _, code, _ in parked(hq)}[later] == "SNP-368"


def test_a_row_left_out_that_a_rule_drops_is_lost(family: Directory) -> None:
    """What the site says of it later is not said of another site's row."""
    hq = family["hq"]
    as_refresh(hq, "INSERT INTO orders VALUES (4, 'theirs', 0)")
    number = park(family, "INSERT INTO orders VALUES (4, 'mine', 1), (5, 'five', 1)")
    assert retried(hq, number, "4").applied
    rules.add_unique_resolution(hq, "orders", "orders_pkey", "discard")
    assert deferred.retry_errors(hq, [number])[0].applied
    park(family, "INSERT INTO lines VALUES (40, 4, 1)")
    assert [code for _, _, code, _ in parked(hq)] == ["SNP-368"]


def test_a_value_that_cannot_be_held_is_left_out(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "INSERT INTO lines VALUES (10, 1, 1), (11, 1, 9000000000)")
    assert not deferred.retry_errors(hq, [number])[0].applied
    skip = [call_of(hq, number, "11", "lines")]
    [report] = deferred.retry_errors(hq, [number], skip=skip)
    assert report.applied, report.reason
    assert rows(hq, "lines") == [(10, 1, 1)]
    left = deferred.show_error(hq, number)
    assert left.reason == "error"
    assert [(call.new or {})["n"] for call in left.calls] == ["9000000000"]


def test_what_is_refused_changes_nothing(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    first, second = call_of(hq, number, "1"), call_of(hq, number, "2")
    before = (rows(hq), deferred.show_error(hq, number))
    everything = [call.call_no for call in before[1].calls]
    for skip, why in (
        ([999], "has no call 999"),
        (everything, "no other calls to apply"),
    ):
        with pytest.raises(BadSkip, match=why):
            deferred.retry_errors(hq, [number], skip=skip)
        with pytest.raises(BadSkip, match=why):
            deferred.preview_error(hq, number, skip=skip)
    with pytest.raises(BadSkip, match="exactly one"):
        deferred.retry_errors(hq, skip=[first])
    with pytest.raises(BadEdit, match="is left out"):
        retried(hq, number, "2", edit=f"{second}.qty=5")
    # The conflict is in the rest.
    assert "update conflict" in retried(hq, number, "1").reason
    assert (rows(hq), deferred.show_error(hq, number)) == before


def test_an_edited_call_must_not_follow_one_left_out(family: Directory) -> None:
    hq = family["hq"]
    as_refresh(hq, "INSERT INTO orders VALUES (4, 'theirs', 0)")
    number = park(
        family,
        "INSERT INTO orders VALUES (4, 'mine', 1), (5, 'five', 1)",
        "INSERT INTO lines VALUES (40, 4, 1)",
    )
    with pytest.raises(BadEdit, match="is left out"):
        retried(hq, number, "4", edit="lines.n=5")


def test_a_transaction_that_calls_procedures_is_retried_whole(
    family: Directory,
) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    call = call_of(hq, number, "2")
    run(
        hq,
        "INSERT INTO snaptide.error_procedure (error_id, call_no, name, arguments,"
        f" ran_here) VALUES ({number}, 999, 'public.p', '[]', false)",
    )
    with pytest.raises(BadSkip, match="calls procedures"):
        deferred.retry_errors(hq, [number], skip=[call])


def test_a_withdrawn_transaction_goes_back_whole(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    call = call_of(hq, number, "2")
    run(hq, "UPDATE snaptide.error_transaction SET reason = 'withdrawn'")
    with pytest.raises(BadSkip, match="withdrawn"):
        deferred.retry_errors(hq, [number], skip=[call])


def test_a_preview_leaves_out_the_same(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    found = deferred.preview_error(hq, number, skip=[call_of(hq, number, "2")])
    assert (found.applied, found.left_out) == (True, 1)
    assert [(row.after or {})["qty"] for row in found.rows] == ["11", "99", "31"]
    assert rows(hq)[0] == (1, "a", 10)
    assert len(deferred.show_error(hq, number).calls) == 3


def test_the_caller_may_commit(family: Directory) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    skip = [call_of(hq, number, "2")]
    with hq.begin() as connection:
        report = retry(connection, hq, number, skip=skip)
        connection.rollback()
    assert report.left_out == 1
    assert len(deferred.show_error(hq, number).calls) == 3


def test_command(family: Directory, write_settings: WriteSettings) -> None:
    hq = family["hq"]
    number = park(family, "UPDATE orders SET qty = qty + 1")
    snaptide = Snaptide(write_settings(family))
    calls = [str(call_of(hq, number, key)) for key in ("2", "3")]
    options = ["--skip", calls[0], "--skip", calls[1]]
    done = snaptide("errors", "retry", "hq", str(number), *options, "--json")
    assert json.loads(done.stdout)[0]["left_out"] == 2
    assert rows(hq) == [(1, "a", 11), (2, "b", 99), (3, "c", 30)]


@prepared_once("hq", "lax", "bos")
def three(sites: Directory) -> None:
    """Masters of three orders; lax, between the others, has changed one unseen."""
    found_group(sites, "lax", "hq", "bos", via={"hq": "lax", "bos": "lax"})
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 0), (2, 0), (3, 0)")
    push_all(sites)
    unseen(sites["lax"], CHANGED)


def test_what_is_left_out_goes_on_by_itself(three: Directory) -> None:
    """Other masters get the rest now, and what was left out when it is applied."""
    lax, bos = three["lax"], three["bos"]
    run(three["hq"], "UPDATE orders SET qty = 1")
    assert deferred.push(three["hq"], "lax").errors == 1
    [error] = deferred.list_errors(lax)
    assert retried(lax, error.id, "2").applied
    push_all(three)
    assert [row[2] for row in rows(bos)] == [1, 0, 1]
    unseen(lax, "UPDATE orders SET qty = 0 WHERE id = 2")
    assert deferred.retry_errors(lax, [error.id])[0].applied
    push_all(three)
    assert [row[2] for row in rows(bos)] == [1, 1, 1]
    assert [len(deferred.list_errors(site)) for site in three.values()] == [0, 0, 0]


def test_only_what_is_decided_here_is_listed(three: Directory) -> None:
    lax = three["lax"]
    run(three["hq"], "UPDATE orders SET qty = 1")
    deferred.push(three["hq"], "lax")
    [error] = deferred.list_errors(lax)
    first = call_of(lax, error.id, "1")
    assert retried(lax, error.id, "2", edit=f"{first}.qty=8").applied
    with lax.transaction() as connection:
        listed = [(one.key or {})["id"] for one in differing.listed(connection)]
    assert sorted(listed) == ["1", "3"]
    deferred.delete_errors(lax, [error.id])
    with lax.transaction() as connection:
        listed = [(one.key or {})["id"] for one in differing.listed(connection)]
    assert sorted(listed) == ["1", "2", "3"]
