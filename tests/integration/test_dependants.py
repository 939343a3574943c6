"""What waits behind a parked transaction, and what goes on."""

from typing import Any

import pytest

import deferred
from deferred import Edit
from deferred.errors import BadEdit, NoSuchError, PredecessorLost, WaitsForError
from masters import rules
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, queued, rows, run
from tests.sent import sent

CONFLICT = "UPDATE orders SET qty = 15 WHERE id = 1"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Three orders at both sites; the first has changed at the master."""
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 10 FROM generate_series(1, 3) g",
        )
    as_refresh(sites["hq"], "UPDATE orders SET qty = 99 WHERE id = 1")


@prepared_once("hq", "jfk")
def family(sites: Directory) -> None:
    """Parents and children; a parent of the site's is refused by the master."""
    link(sites, "parent", "id int PRIMARY KEY, name text UNIQUE")
    link(sites, "child", "id int PRIMARY KEY, parent int REFERENCES parent (id), v int")
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO parent VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO child VALUES (10, 1, 0)",
        )
    as_refresh(sites["hq"], "INSERT INTO parent VALUES (7, 'taken')")


def push_each(
    sites: Directory, *statements: str, **options: Any
) -> list[tuple[str, list[int]]]:
    """Push, each statement a transaction; what is parked, and what it waits for."""
    for statement in statements:
        run(sites["jfk"], statement)
    deferred.push(sites["jfk"], **options)
    assert queued(sites["jfk"]) == 0
    found = parked(sites["hq"])
    places = {error[0]: place for place, error in enumerate(found)}
    return [(error[1], [places[other] for other in error[3]]) for error in found]


def test_later_change_of_the_row_waits(orders: Directory) -> None:
    assert push_each(orders, CONFLICT, "UPDATE orders SET qty = 16 WHERE id = 1") == [
        ("conflict", []),
        ("dependant", [0]),
    ]


def test_others_go_on(orders: Directory) -> None:
    assert push_each(orders, CONFLICT, "UPDATE orders SET qty = 16 WHERE id = 2") == [
        ("conflict", [])
    ]
    assert rows(orders["hq"])[1][2] == 16


@pytest.mark.parametrize("group_max_calls", [1, 100])
def test_transaction_that_ended_as_it_began_goes_on(
    orders: Directory, group_max_calls: int
) -> None:
    run(orders["jfk"], CONFLICT)
    deferred.push(orders["jfk"])
    there, back = (f"UPDATE orders SET qty = {n} WHERE id = 2" for n in (11, 10))
    run(orders["jfk"], there, back)
    assert push_each(orders, group_max_calls=group_max_calls) == [("conflict", [])]


def test_chain_waits_for_all_before_it(orders: Directory) -> None:
    assert push_each(
        orders,
        CONFLICT,
        "UPDATE orders SET qty = qty + 1 WHERE id IN (1, 2)",
        "UPDATE orders SET qty = qty + 1 WHERE id IN (2, 3)",
    ) == [("conflict", []), ("dependant", [0]), ("dependant", [1])]
    assert [row[2] for row in rows(orders["hq"])] == [99, 10, 10]


def test_rules_do_not_settle_what_depends(orders: Directory) -> None:
    """A method would write over the master what was made on a refused row."""
    rules.set_column_group(orders["hq"], "orders", "name", ["name"])
    rules.add_update_resolution(orders["hq"], "orders", "name", "overwrite")
    assert push_each(
        orders, CONFLICT, "UPDATE orders SET name = 'mine', qty = 17 WHERE id = 1"
    ) == [("conflict", []), ("dependant", [0])]


def test_rules_do_not_settle_what_may_depend(orders: Directory) -> None:
    """It was made on the row as refreshed, which is no longer the master's either."""
    hq, jfk = orders["hq"], orders["jfk"]
    assert push_each(orders, CONFLICT) == [("conflict", [])]
    rules.set_column_group(hq, "orders", "qty", ["qty"])
    rules.add_update_resolution(hq, "orders", "qty", "overwrite")
    as_refresh(jfk, "UPDATE orders SET qty = 99 WHERE id = 1")
    as_refresh(hq, "UPDATE orders SET qty = 98 WHERE id = 1")
    assert push_each(orders, "UPDATE orders SET qty = 100 WHERE id = 1") == [
        ("conflict", []),
        ("dependant", [0]),
    ]
    assert rows(hq)[0][2] == 98


def test_change_made_on_the_refreshed_row_does_not_depend(orders: Directory) -> None:
    assert push_each(orders, CONFLICT) == [("conflict", [])]
    as_refresh(orders["jfk"], "UPDATE orders SET qty = 99 WHERE id = 1")
    assert push_each(orders, "UPDATE orders SET qty = 100 WHERE id = 1") == [
        ("conflict", [])
    ]
    assert rows(orders["hq"])[0][2] == 100


def test_row_back_at_its_old_value_depends_all_the_same(orders: Directory) -> None:
    """Its old values are a parked call's new ones: it was made on those."""
    run(orders["jfk"], CONFLICT)
    deferred.push(orders["jfk"])
    as_refresh(orders["hq"], "UPDATE orders SET qty = 15 WHERE id = 1")
    assert push_each(orders, "UPDATE orders SET qty = 16 WHERE id = 1") == [
        ("conflict", []),
        ("dependant", [0]),
    ]


def test_delete_of_a_refused_insert_waits(family: Directory) -> None:
    assert push_each(
        family,
        "INSERT INTO parent VALUES (7, 'mine')",
        "DELETE FROM parent WHERE id = 7",
    ) == [("conflict", []), ("dependant", [0])]


def test_child_of_a_refused_parent_waits(family: Directory) -> None:
    assert push_each(
        family,
        "INSERT INTO parent VALUES (3, 'taken')",
        "INSERT INTO child VALUES (30, 3, 0)",
        "INSERT INTO child VALUES (11, 1, 0)",
        "UPDATE child SET v = 1 WHERE id = 30",
    ) == [("conflict", []), ("dependant", [0]), ("dependant", [0, 1])]
    assert [row[0] for row in rows(family["hq"], "child")] == [10, 11]


ANOTHERS_PARENT = "INSERT INTO parent VALUES (3, 'theirs')"


@pytest.mark.parametrize("group_max_calls", [1, 100])
def test_child_does_not_go_to_the_parent_of_another_site(
    family: Directory, group_max_calls: int
) -> None:
    """Both made parent 3; what refers to it at the site means the site's own."""
    as_refresh(family["hq"], ANOTHERS_PARENT)
    run(family["jfk"], "INSERT INTO parent VALUES (3, 'mine')")
    deferred.push(family["jfk"])
    assert push_each(
        family,
        "INSERT INTO child VALUES (30, 3, 0)",
        "UPDATE child SET parent = 3 WHERE id = 10",
        "INSERT INTO child VALUES (11, 1, 0)",
        "UPDATE child SET v = 1 WHERE id = 30",
        group_max_calls=group_max_calls,
    ) == [
        ("conflict", []),
        ("dependant", [0]),
        ("dependant", [0]),
        ("dependant", [0, 1]),
    ]
    assert rows(family["hq"], "child") == [(10, 1, 0), (11, 1, 0)]


def test_child_of_a_refused_key_change_waits(family: Directory) -> None:
    """The site's parent 2 became 3; the master's 3 is another one."""
    as_refresh(family["hq"], ANOTHERS_PARENT)
    assert push_each(
        family,
        "UPDATE parent SET id = 3 WHERE id = 2",
        "INSERT INTO child VALUES (30, 3, 0)",
        "UPDATE parent SET name = 'c' WHERE id = 3",
    ) == [("conflict", []), ("dependant", [0]), ("dependant", [0, 1])]
    assert rows(family["hq"], "child") == [(10, 1, 0)]
    assert rows(family["hq"], "parent")[1:3] == [(2, "b"), (3, "theirs")]


def test_child_that_leaves_its_parent_alone_goes_on(family: Directory) -> None:
    """What it changes says nothing of the parent that it has from the master."""
    as_refresh(family["hq"], ANOTHERS_PARENT, "INSERT INTO child VALUES (30, 3, 0)")
    run(family["jfk"], "INSERT INTO parent VALUES (3, 'mine')")
    deferred.push(family["jfk"])
    as_refresh(
        family["jfk"],
        "UPDATE parent SET name = 'theirs' WHERE id = 3",
        "INSERT INTO child VALUES (30, 3, 0)",
    )
    assert push_each(
        family,
        "UPDATE child SET v = 1 WHERE id = 30",
        "DELETE FROM child WHERE id = 30",
    ) == [("conflict", [])]
    assert rows(family["hq"], "child") == [(10, 1, 0)]


@prepared_once("hq", "jfk")
def shops(sites: Directory) -> None:
    """Shops and sales, which refer to a unique value of several columns."""
    link(
        sites,
        "shop",
        "id int PRIMARY KEY, town text, no numeric, boss int REFERENCES shop (id),"
        " UNIQUE (town, no)",
    )
    link(
        sites,
        "sale",
        "id int PRIMARY KEY, shop_no int, shop_town text,"
        " FOREIGN KEY (shop_town, shop_no) REFERENCES shop (town, no)",
    )
    as_refresh(sites["hq"], "INSERT INTO shop VALUES (1, 'Ur', 7)")


def test_child_refers_to_a_unique_value(shops: Directory) -> None:
    """Of several columns, one of which prints otherwise where it is referred to."""
    assert push_each(
        shops,
        "INSERT INTO shop VALUES (2, 'Ur', 7.0)",
        "INSERT INTO sale VALUES (20, 7, 'Ur')",
        "INSERT INTO sale VALUES (21, NULL, 'Ur')",
    ) == [("conflict", []), ("dependant", [0])]
    assert rows(shops["hq"], "sale") == [(21, None, "Ur")]


def test_child_in_the_same_table_waits(shops: Directory) -> None:
    assert push_each(
        shops,
        "INSERT INTO shop VALUES (1, 'Eridu', 1)",
        "INSERT INTO shop VALUES (4, 'Eridu', 4, 1), (5, 'Eridu', 5, 4)",
        "INSERT INTO shop VALUES (6, 'Eridu', 6, 5)",
        "INSERT INTO shop VALUES (7, 'Eridu', 7)",
    ) == [("conflict", []), ("dependant", [0]), ("dependant", [1])]
    assert [row[0] for row in rows(shops["hq"], "shop")] == [1, 7]


def test_parent_of_a_refused_child_is_not_deleted(family: Directory) -> None:
    """Its delete would make the child's retry impossible."""
    run(family["hq"], "ALTER TABLE child ADD CHECK (v >= 0)")
    reasons = push_each(
        family,
        "INSERT INTO child VALUES (20, 2, -1)",
        "DELETE FROM child WHERE id = 20",
        "DELETE FROM parent WHERE id = 2",
        group_max_calls=1,  # in a group the child would never have been there
    )
    assert [reason for reason, _ in reasons] == ["error", "dependant", "dependant"]
    assert [row[0] for row in rows(family["hq"], "parent")] == [1, 2, 7]


def test_siblings_of_a_refused_child_go_on(family: Directory) -> None:
    """Two references to one parent do not meet."""
    run(family["hq"], "ALTER TABLE child ADD CHECK (v >= 0)")
    assert push_each(
        family,
        "INSERT INTO child VALUES (20, 2, -1)",
        "INSERT INTO child VALUES (21, 2, 1)",
    ) == [("error", [])]
    assert (21, 2, 1) in rows(family["hq"], "child")


def test_unique_value_that_a_refused_call_gave_up_waits(family: Directory) -> None:
    """The name is still taken at the master, because the first was refused."""
    as_refresh(family["hq"], "UPDATE parent SET name = 'theirs' WHERE id = 2")
    assert push_each(
        family,
        "UPDATE parent SET name = CASE id WHEN 1 THEN 'x' ELSE 'y' END",
        "INSERT INTO parent VALUES (4, 'a')",
    ) == [("conflict", []), ("dependant", [0])]


def test_failure_of_its_own_waits_for_nobody(family: Directory) -> None:
    """It shares a row, but a check of the data's own is why it failed."""
    run(family["hq"], "ALTER TABLE child ADD CHECK (v >= 0)")
    as_refresh(family["hq"], "UPDATE child SET v = 5")
    run(family["jfk"], "UPDATE child SET v = 1")
    deferred.push(family["jfk"])
    as_refresh(family["jfk"], "UPDATE child SET v = 5")
    assert push_each(family, "UPDATE child SET v = -1") == [
        ("conflict", []),
        ("error", []),
    ]


def test_transactions_of_other_origins_do_not_wait(orders: Directory) -> None:
    assert push_each(orders, CONFLICT) == [("conflict", [])]
    run(
        orders["hq"],
        "UPDATE snaptide.error_transaction SET origin_id = gen_random_uuid()",
        "UPDATE snaptide.error_footprint SET origin_id = gen_random_uuid()",
    )
    assert push_each(orders, "UPDATE orders SET qty = 16 WHERE id = 1") == [
        ("conflict", []),
        ("conflict", []),
    ]


def test_retry_takes_dependants_along_in_order(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(
        orders,
        CONFLICT,
        "UPDATE orders SET qty = 16 WHERE id IN (1, 2)",
        "UPDATE orders SET qty = 17 WHERE id IN (1, 2)",
        "UPDATE orders SET qty = 18 WHERE id = 2",
    )
    ids = [error[0] for error in parked(hq)]
    as_refresh(hq, "UPDATE orders SET qty = 10 WHERE id = 1")
    reports = deferred.retry_errors(hq, [ids[0]], with_dependants=True)
    assert [(report.error_id, report.applied) for report in reports] == [
        (error_id, True) for error_id in ids
    ]
    assert rows(hq) == rows(orders["jfk"])
    assert parked(hq) == []


def test_retry_of_all_says_what_stays(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, CONFLICT, "UPDATE orders SET qty = 16 WHERE id = 1")
    reports = deferred.retry_errors(hq)
    assert [report.applied for report in reports] == [False, False]
    assert "update conflict: no rule" in reports[0].reason
    assert "waits for" in reports[1].reason
    assert len(parked(hq)) == 2


def test_dependant_waits_for_its_turn(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, CONFLICT, "UPDATE orders SET qty = 16 WHERE id = 1")
    first, second = (error[0] for error in parked(hq))
    with hq.begin() as connection, pytest.raises(WaitsForError) as caught:
        deferred.retry(connection, hq, second)
    assert caught.value.facts["waits_for"] == [first]
    deferred.delete_errors(hq, [first])
    # Nobody stands before it now; it has a conflict of its own.
    [report] = deferred.retry_errors(hq, [second])
    assert "update conflict" in report.reason


def waits_for(hq: Site) -> dict[int, list[int]]:
    return {error[0]: error[3] for error in parked(hq)}


def test_nothing_waits_for_what_is_settled(orders: Directory) -> None:
    hq = orders["hq"]
    later = [f"UPDATE orders SET qty = {n} WHERE id = 1" for n in (16, 17)]
    push_each(orders, CONFLICT, *later, "INSERT INTO orders VALUES (9)")
    first, second, third = (error[0] for error in parked(hq))
    assert waits_for(hq) == {first: [], second: [first], third: [first, second]}
    deferred.delete_errors(hq, [first])
    assert waits_for(hq) == {second: [], third: [second]}
    as_refresh(hq, "UPDATE orders SET qty = 15 WHERE id = 1")
    assert deferred.retry_errors(hq, [second])[0].applied
    assert waits_for(hq) == {third: []}


def test_child_of_what_was_given_up_is_decided_about(family: Directory) -> None:
    """It is not attached to the other site's parent, unless somebody says so."""
    hq = family["hq"]
    as_refresh(hq, ANOTHERS_PARENT)
    push_each(
        family,
        "INSERT INTO parent VALUES (3, 'mine')",
        "INSERT INTO child VALUES (30, 3, 0)",
        "UPDATE child SET v = 1 WHERE id = 30",
    )
    first, second, third = (error[0] for error in parked(hq))
    deferred.delete_errors(hq, [first])
    reports = deferred.retry_errors(hq)
    assert [report.applied for report in reports] == [False, False]
    error = deferred.show_error(hq, second)
    assert (error.reason, error.error_code) == ("dependant", PredecessorLost.code)
    assert error.error_message == reports[0].reason
    assert error.error_message == (
        f"Depends on error transaction {first}, which was given up. Retry it by its"
        " number, or delete it."
    )
    assert deferred.retry_errors(hq, origin="jfk")[0].applied is False
    assert deferred.retry_errors(hq, [second])[0].applied
    [report] = deferred.retry_errors(hq, [third])
    assert report.applied
    assert rows(hq, "child") == [(10, 1, 0), (30, 3, 1)]


@pytest.mark.parametrize(
    ("edit", "follows"),
    [("parent.id=4", False), ("parent.name=ours", True), (None, True)],
)
def test_child_of_what_was_applied_after_all(
    family: Directory, edit: str | None, *, follows: bool
) -> None:
    """With another key its parent is not where the child looks."""
    hq = family["hq"]
    as_refresh(hq, ANOTHERS_PARENT)
    push_each(
        family,
        "INSERT INTO parent VALUES (3, 'mine')",
        "INSERT INTO child VALUES (30, 3, 0)",
    )
    first, second = (error[0] for error in parked(hq))
    if edit is None:
        as_refresh(hq, "DELETE FROM parent WHERE id = 3")
    edits = [Edit.parse(edit)] if edit else []
    reports = deferred.retry_errors(hq, [first], edits=edits, with_dependants=True)
    assert [report.applied for report in reports] == [True, follows]
    if not follows:
        assert "applied with other values" in reports[1].reason
        assert rows(hq, "child") == [(10, 1, 0)]
        edits = [Edit.parse("child.v=7")]
        assert deferred.retry_errors(hq, [second], edits=edits)[0].applied


def test_child_of_what_a_rule_drops_at_its_retry(family: Directory) -> None:
    hq = family["hq"]
    as_refresh(hq, ANOTHERS_PARENT)
    push_each(
        family,
        "INSERT INTO parent VALUES (3, 'mine')",
        "INSERT INTO child VALUES (30, 3, 0)",
    )
    rules.add_unique_resolution(hq, "parent", "parent_pkey", "discard")
    reports = deferred.retry_errors(hq)
    assert [report.applied for report in reports] == [True, False]
    assert "applied with other values" in reports[1].reason
    assert rows(hq, "child") == [(10, 1, 0)]


def test_retry_follows_the_rules_of_now(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, CONFLICT)
    rules.set_column_group(hq, "orders", "qty", ["qty"])
    rules.add_update_resolution(hq, "orders", "qty", "additive")
    [report] = deferred.retry_errors(hq)
    assert (report.applied, report.conflicts_resolved) == (True, 1)
    assert rows(hq)[0][2] == 104


def test_edited_call_starts_from_the_row_that_was_shown(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, CONFLICT)
    [(error_id, *_)] = parked(hq)
    edits = [Edit.parse("orders.qty=60"), Edit.parse("orders.name=both")]
    [report] = deferred.retry_errors(hq, [error_id], edits=edits)
    assert report.applied
    assert rows(hq)[0][1:3] == ("both", 60)


def test_edited_call_keeps_what_its_site_has_not_changed(orders: Directory) -> None:
    """A trigger of the master's may have written it meanwhile, or another site."""
    hq = orders["hq"]
    push_each(orders, "UPDATE orders SET name = 'mine' WHERE id = 1")
    [(error_id, *_)] = parked(hq)
    edits = [Edit.parse("orders.name=both")]
    [report] = deferred.retry_errors(hq, [error_id], edits=edits)
    assert report.applied
    assert rows(hq)[0][1:3] == ("both", 99)


def test_edit_of_a_row_that_changed_again_is_a_conflict(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, CONFLICT)
    [(error_id, *_)] = parked(hq)
    as_refresh(hq, "UPDATE orders SET qty = 98 WHERE id = 1")
    [report] = deferred.retry_errors(
        hq, [error_id], edits=[Edit.parse("orders.qty=60")]
    )
    assert not report.applied
    assert rows(hq)[0][2] == 98


def test_edit_brings_a_deleted_row_back(orders: Directory) -> None:
    hq = orders["hq"]
    as_refresh(hq, "DELETE FROM orders WHERE id = 1")
    push_each(orders, CONFLICT)
    [(error_id, *_)] = parked(hq)
    edits = [Edit.parse("orders.qty=60")]
    [report] = deferred.retry_errors(hq, [error_id], edits=edits)
    assert report.applied, report.reason
    assert rows(hq)[0][:3] == (1, "n1", 60)


def test_edit_of_an_insert_whose_key_is_there_updates(family: Directory) -> None:
    hq = family["hq"]
    push_each(family, "INSERT INTO parent VALUES (7, 'mine')")
    [(error_id, *_)] = parked(hq)
    [report] = deferred.retry_errors(
        hq, [error_id], edits=[Edit.parse("parent.name=ours")]
    )
    assert report.applied, report.reason
    assert rows(hq, "parent")[2] == (7, "ours")


def test_edit_of_the_key_of_an_insert(family: Directory) -> None:
    hq = family["hq"]
    push_each(family, "INSERT INTO parent VALUES (7, 'mine')")
    [(error_id, *_)] = parked(hq)
    [report] = deferred.retry_errors(hq, [error_id], edits=[Edit.parse("parent.id=8")])
    assert report.applied, report.reason
    assert rows(hq, "parent")[2:] == [(7, "taken"), (8, "mine")]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("orders.nothing=1", "no new value"),
        ("others.qty=1", "no call"),
        ("99.qty=1", "no call"),
    ],
)
def test_edit_that_fits_nothing(orders: Directory, edit: str, said: str) -> None:
    push_each(orders, CONFLICT)
    [(error_id, *_)] = parked(orders["hq"])
    with pytest.raises(BadEdit, match=said):
        deferred.retry_errors(orders["hq"], [error_id], edits=[Edit.parse(edit)])
    assert len(parked(orders["hq"])) == 1


def test_edit_of_one_of_several_calls_needs_its_number(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, "UPDATE orders SET qty = 15")
    [(error_id, *_)] = parked(hq)
    with pytest.raises(BadEdit, match="3 calls"):
        deferred.retry_errors(hq, [error_id], edits=[Edit.parse("orders.qty=1")])
    first = deferred.show_error(hq, error_id).calls[0]
    edit = Edit(call=first.call_no, column="qty", value="60")
    assert deferred.retry_errors(hq, [error_id], edits=[edit])[0].applied
    assert [row[2] for row in rows(hq)] == [60, 15, 15]


def test_edit_that_the_type_cannot_read(orders: Directory) -> None:
    push_each(orders, CONFLICT)
    [(error_id, *_)] = parked(orders["hq"])
    edits = [Edit.parse("orders.qty=many")]
    [report] = deferred.retry_errors(orders["hq"], [error_id], edits=edits)
    assert not report.applied
    assert "many" in report.reason
    assert len(parked(orders["hq"])) == 1


def test_edits_go_with_one_transaction(orders: Directory) -> None:
    with pytest.raises(BadEdit):
        deferred.retry_errors(orders["hq"], edits=[Edit.parse("orders.qty=1")])


def test_deleted_error_is_gone_with_all_that_it_had(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, CONFLICT, "UPDATE orders SET qty = 16 WHERE id = 1")
    first, second = (error[0] for error in parked(hq))
    assert deferred.delete_errors(hq, [first]) == 1
    with pytest.raises(NoSuchError):
        deferred.delete_errors(hq, [first])
    with pytest.raises(NoSuchError):
        deferred.show_error(hq, first)
    with pytest.raises(NoSuchError):
        deferred.retry_errors(hq, [first])
    assert [error[0] for error in parked(hq)] == [second]
    assert deferred.delete_errors(hq, origin="lga") == 0
    assert deferred.delete_errors(hq, origin="jfk") == 1
    for table in ("error_call", "error_footprint"):
        assert run(hq, f"SELECT count(*) FROM snaptide.{table}") == [(0,)]


def test_many_are_deleted_with_the_statements_of_a_few(orders: Directory) -> None:
    hq = orders["hq"]
    counts: list[int] = []
    for many in (3, 9):
        changes = [f"UPDATE orders SET qty = {n} WHERE id = 1" for n in range(many)]
        push_each(orders, CONFLICT, *changes)
        numbers = [error[0] for error in parked(hq)]
        assert len(numbers) > many
        with sent(hq) as said:
            assert deferred.delete_errors(hq, numbers) == len(numbers)
        counts.append(len(said))
    assert counts[0] == counts[1] > 0


def test_errors_are_listed_by_origin_in_their_order(orders: Directory) -> None:
    hq = orders["hq"]
    push_each(orders, CONFLICT, "UPDATE orders SET qty = 16 WHERE id = 1")
    listed = deferred.list_errors(hq)
    assert [error.order_no for error in listed] == sorted(
        error.order_no for error in listed
    )
    assert deferred.list_errors(hq, origin="lga") == []
    assert len(deferred.list_errors(hq, origin="jfk")) == 2


def test_who_waits_for_whom_is_shown_as_far_as_it_reaches(orders: Directory) -> None:
    hq, change = orders["hq"], "UPDATE orders SET qty = qty + 1 WHERE id IN ({})"
    push_each(orders, CONFLICT, change.format("1, 2"), change.format("2, 3"))
    first, second, third = (error[0] for error in parked(hq))
    edges = [(e.waiting, e.on) for e in deferred.show_error(hq, first).edges]
    assert edges == [(second, first), (third, second)]
    deferred.delete_errors(hq, [first])
    edges = [(e.waiting, e.on) for e in deferred.show_error(hq, second).edges]
    assert edges == [(third, second)]
