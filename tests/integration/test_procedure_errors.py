"""What becomes of a transaction whose procedure cannot run, or must not."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

import deferred
import synchronous
from deferred import Edit
from deferred.batches.called import ProcedureCall
from deferred.errors import (
    BadEdit,
    NoDestination,
    ProcedureEndedTransaction,
    ProcedureEndsTransaction,
    UnknownProcedure,
)
from deferred.procedures import perform, routines
from masters import rules
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, queued, rows, run

DIVIDE = """
CREATE FUNCTION public.divide(by int) RETURNS void LANGUAGE sql
AS 'UPDATE public.orders SET qty = qty / by'
"""


@pytest.fixture(autouse=True)
def no_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test find the routines that another one registered."""
    monkeypatch.setattr(routines.REGISTRY, "_registered", {})


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """Two orders at both sites, and a function that hq allows."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'n1', 10), (2, 'n2', 20)")
        run(site, DIVIDE)
    deferred.allow_procedure(sites["hq"], "divide")


def call(site: Site, name: str, *args: object, first: str = "") -> None:
    with site.begin() as connection:
        if first:
            connection.exec_driver_sql(first)
        deferred.call(connection, name, args)


def quantities(site: Site) -> list[int]:
    return [row[2] for row in rows(site)]


def test_a_failing_procedure_parks_the_whole_transaction(orders: Directory) -> None:
    """What changed before it is undone; call, argument and reason are shown."""
    hq, jfk = orders["hq"], orders["jfk"]
    call(jfk, "divide", 0, first="UPDATE public.orders SET qty = 11 WHERE id = 1")
    run(jfk, "INSERT INTO orders VALUES (3, 'n3', 30)")
    assert deferred.push(jfk).errors == 1
    assert quantities(hq) == [10, 20, 30]
    assert queued(jfk) == 0
    [error] = deferred.list_errors(hq)
    assert (error.reason, error.error_code) == ("error", "SNP-317")
    shown = deferred.show_error(hq, error.id)
    [change], [procedure] = shown.calls, shown.procedures
    assert change.call_no < procedure.call_no
    assert shown.call_count == 2
    assert procedure.name == "divide"
    assert [(a.type, a.value) for a in procedure.arguments] == [("integer", "0")]
    assert procedure.error is not None
    assert "division by zero (22012)" in procedure.error


def test_retry_runs_it_with_another_argument(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    call(jfk, "divide", 0, first="UPDATE public.orders SET qty = 50 WHERE id = 1")
    deferred.push(jfk)
    [error] = deferred.list_errors(hq)
    [report] = deferred.retry_errors(hq, [error.id])
    assert not report.applied
    assert "division by zero" in report.reason
    with pytest.raises(BadEdit):
        deferred.retry_errors(hq, [error.id], edits=[Edit.parse("divide.2=5")])
    edits = [Edit.parse("orders.qty=40"), Edit.parse("divide.1=10")]
    [report] = deferred.retry_errors(hq, [error.id], edits=edits)
    assert report.applied, report.reason
    assert quantities(hq) == [4, 2]
    assert deferred.list_errors(hq) == []
    assert run(hq, "SELECT count(*) FROM snaptide.error_procedure") == [(0,)]


FORGED: list[tuple[str, *tuple[object, ...]]] = [
    ("pg_catalog.pg_notify", "a", "b"),  # there, and not allowed
    ('public"."divide', 1),  # no name
    ("os:system", "true"),  # no routine
]


def test_nothing_runs_that_is_not_allowed(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    for name, *args in FORGED:
        call(jfk, name, *args)
        assert deferred.push(jfk).errors == 1
        assert deferred.delete_errors(hq) == 1
    call(jfk, "divide", 2)
    assert deferred.revoke_procedure(hq, "divide")
    deferred.push(jfk)
    [error] = deferred.list_errors(hq)
    assert error.error_code == "SNP-316"
    deferred.allow_procedure(hq, "divide")
    assert deferred.retry_errors(hq)[0].applied
    assert quantities(hq) == [5, 10]


def test_what_a_call_says_to_be_a_type_is_looked_up(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    run(hq, "CREATE TABLE public.victim ()")
    call(jfk, "divide", 1)
    run(
        jfk,
        "UPDATE snaptide.procedure_call SET arguments ="
        ' \'[{"type": "int) ); DROP TABLE public.victim; --", "value": "1"}]\'',
    )
    deferred.push(jfk)
    [error] = deferred.list_errors(hq)
    assert error.error_code == "SNP-317"
    assert run(hq, "SELECT to_regclass('public.victim') IS NULL") == [(False,)]
    assert quantities(hq) == [10, 20]


FORGE = text("SELECT snaptide.defer_call('divide', NULL, CAST(:given AS jsonb), false)")
FORGED_BY_HAND = text(
    "UPDATE snaptide.procedure_call SET arguments = CAST(:given AS jsonb)"
    " WHERE call_no = (SELECT max(call_no) FROM snaptide.procedure_call)"
)


def test_a_type_without_values_is_no_type(orders: Directory) -> None:
    """Neither for a routine nor for a function of the database."""
    hq, jfk = orders["hq"], orders["jfk"]

    @deferred.procedure("look")
    def look(connection: Connection, value: object) -> None:
        raise AssertionError(value)

    for name in ("look", "divide"):
        for type_ in ("unknown", "void", "record", "-"):
            given = json.dumps([{"type": type_, "value": "1"}])
            call(jfk, name, 1)
            with jfk.begin() as connection:
                connection.execute(FORGED_BY_HAND, {"given": given})
            deferred.push(jfk)
            [error] = deferred.list_errors(hq)
            assert f"There is no type {type_} here" in error.error_message
            deferred.delete_errors(hq)
    assert (queued(jfk), quantities(hq)) == (0, [10, 20])


#: What is no array of objects with exactly the texts type and value.
NO_ARGUMENTS = [
    "[1]",
    "null",
    '"abc"',
    '{"type": null, "value": null}',
    '[{"type": "text"}]',
    '[{"type": "text", "value": 1}]',
    '[{"type": "text", "value": "a", "more": null}]',
    f"[{', '.join(['{}'] * 2000)}]".replace("{}", '{"type": null, "value": null}'),
]


def test_what_is_no_argument_is_not_queued(orders: Directory) -> None:
    for forged in (*NO_ARGUMENTS, None):
        with orders["jfk"].begin() as connection:
            with pytest.raises(DBAPIError, match="needs an array") as caught:
                connection.execute(FORGE, {"given": forged})
            assert getattr(caught.value.orig, "sqlstate", None) == "22023"
            connection.rollback()
    assert deferred.push(orders["jfk"]).transactions == 0


def test_what_was_queued_malformed_is_parked(orders: Directory) -> None:
    """What follows it goes on; nothing of it ever runs, and it is shown as it was."""
    hq, jfk = orders["hq"], orders["jfk"]
    for forged in NO_ARGUMENTS:
        call(jfk, "divide", 1)
        with jfk.begin() as connection:
            connection.execute(FORGED_BY_HAND, {"given": forged})
    run(jfk, "UPDATE orders SET qty = 11 WHERE id = 1")
    assert deferred.push(jfk).errors == len(NO_ARGUMENTS)
    assert (queued(jfk), quantities(hq)) == (0, [11, 20])
    first, *_ = deferred.list_errors(hq)
    [procedure] = deferred.show_error(hq, first.id).procedures
    assert (procedure.arguments, first.error_code) == ((), "SNP-317")
    assert "arguments are malformed: [1]" in first.error_message
    assert not any(one.applied for one in deferred.retry_errors(hq))
    assert run(
        hq, "SELECT arguments FROM snaptide.error_procedure ORDER BY error_id LIMIT 2"
    ) == [
        ([1],),
        (None,),
    ]


def test_one_with_procedures_waits_for_all_that_is_parked(orders: Directory) -> None:
    """Nobody knows what it would look at; rows that are as expected go on."""
    hq, jfk = orders["hq"], orders["jfk"]
    as_refresh(hq, "UPDATE orders SET qty = 99 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 11 WHERE id = 1")  # in conflict
    call(jfk, "divide", 2)
    run(jfk, "UPDATE orders SET qty = 22 WHERE id = 2")
    deferred.push(jfk)
    first, second = deferred.list_errors(hq)
    assert (second.reason, second.waits_for) == ("dependant", (first.id,))
    assert quantities(hq) == [99, 22]


def test_a_conflict_may_be_due_to_a_parked_procedure(orders: Directory) -> None:
    """No rule settles it then; it waits, and is asked again after the procedure."""
    hq, jfk = orders["hq"], orders["jfk"]
    rules.set_column_group(hq, "orders", "qty", ["qty"])
    rules.add_update_resolution(hq, "orders", "qty", "overwrite")
    call(jfk, "divide", 0)
    as_refresh(hq, "UPDATE orders SET qty = 5 WHERE id = 1")
    for number in (1, 2):
        run(jfk, f"UPDATE orders SET qty = 70 WHERE id = {number}")
    deferred.push(jfk)
    first, second = deferred.list_errors(hq)
    assert (second.reason, second.waits_for) == ("dependant", (first.id,))
    assert quantities(hq) == [5, 70]
    deferred.delete_errors(hq, [first.id])
    [report] = deferred.retry_errors(hq, [second.id])
    assert (report.applied, report.conflicts_resolved) == (True, 1)
    assert quantities(hq) == [70, 70]


def test_a_routine_cannot_end_the_transaction(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]

    @deferred.procedure("greedy")
    def greedy(connection: Connection, how: str) -> None:
        connection.exec_driver_sql("UPDATE public.orders SET qty = 0")
        if how == "verb":
            connection.commit()
        connection.execute(text(how))

    for how in ("verb", "COMMIT", "ROLLBACK"):
        call(jfk, "greedy", how)
        deferred.push(jfk)
        [error] = deferred.list_errors(hq)
        assert ProcedureEndsTransaction.__doc__ is not None
        assert ProcedureEndsTransaction.__doc__ in error.error_message
        deferred.delete_errors(hq)
    assert quantities(hq) == [10, 20]
    with jfk.begin() as connection:
        with pytest.raises(ProcedureEndsTransaction):
            deferred.call(connection, "greedy", ["verb"], here=True)
        connection.exec_driver_sql("UPDATE public.orders SET qty = 1 WHERE id = 1")
    assert quantities(jfk) == [1, 20]
    assert deferred.push(jfk).calls == 1


HIDDEN = ["/* x */ COMMIT", "-- c\nCOMMIT", ";commit", "/**/;-- \n ROLLBACK"]


def test_a_comment_hides_no_commit(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]

    @deferred.procedure("greedy")
    def greedy(connection: Connection, how: str) -> None:
        connection.exec_driver_sql(how)

    for how in HIDDEN:
        call(jfk, "greedy", how)
    deferred.push(jfk)
    assert [one.error_code for one in deferred.list_errors(hq)][:1] == ["SNP-317"]
    assert len(parked(hq)) == len(HIDDEN)


def by_text(connection: Connection) -> None:
    connection.exec_driver_sql("SELECT 1; COMMIT")


def by_driver(connection: Connection) -> None:
    connection.connection.commit()


def by_transaction(connection: Connection) -> None:
    transaction = connection.get_transaction()
    assert transaction is not None
    transaction.commit()


def and_fails(connection: Connection) -> None:
    connection.connection.commit()
    raise RuntimeError("after that")


def to_savepoint(connection: Connection) -> None:
    connection.exec_driver_sql("ROLLBACK TO SAVEPOINT sa_savepoint_1")


@pytest.mark.parametrize(
    "past", [by_text, by_driver, by_transaction, and_fails, to_savepoint]
)
def test_a_transaction_that_was_ended_is_not_answered(
    orders: Directory, past: Callable[[Connection], None]
) -> None:
    """Nothing is parked, what follows waits, and a mended routine goes on."""
    hq, jfk = orders["hq"], orders["jfk"]
    ways = [past]

    @deferred.procedure("sly")
    def sly(connection: Connection) -> None:
        for way in ways:
            way(connection)

    call(jfk, "sly", first="UPDATE public.orders SET name = 'm1' WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 11 WHERE id = 2")
    with pytest.raises(ProcedureEndedTransaction, match="sly"):
        deferred.push(jfk)
    assert parked(hq) == []
    assert (queued(jfk), quantities(hq)) == (2, [10, 20])
    ways.clear()
    deferred.push(jfk)
    assert (queued(jfk), quantities(hq)[1]) == (0, 11)


def test_one_that_calls_here_cannot_end_it_either(orders: Directory) -> None:
    """At a destination that is a site itself, in the middle of its own routine."""
    hq, jfk = orders["hq"], orders["jfk"]

    @deferred.procedure("inner")
    def inner(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT 1")

    @deferred.procedure("outer")
    def outer(connection: Connection) -> None:
        inner = ProcedureCall(call_no=1, name="inner", arguments=(), ran_here=True)
        perform.here(connection, inner)
        connection.commit()

    call(jfk, "outer")
    deferred.push(jfk)
    [error] = deferred.list_errors(hq)
    assert "tried to end" in error.error_message


def test_what_a_routine_raises_is_told(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]

    @deferred.procedure("broken")
    def broken(connection: Connection) -> None:
        raise RuntimeError("no prices today")

    call(jfk, "broken")
    deferred.push(jfk)
    [error] = deferred.list_errors(hq)
    assert "RuntimeError: no prices today" in error.error_message


def test_a_call_goes_somewhere(orders: Directory) -> None:
    jfk = orders["jfk"]
    with jfk.begin() as connection:
        for destinations in ([], ["nowhere"], ["hq", "hq"]):
            with pytest.raises(NoDestination):
                deferred.call(connection, "divide", [1], destinations=destinations)
        with pytest.raises(UnknownProcedure):
            deferred.call(connection, "unheard_of", here=True)
    assert deferred.push(jfk).transactions == 0
    with orders["hq"].begin() as connection, pytest.raises(NoDestination):
        deferred.call(connection, "divide", [1])


@pytest.mark.parametrize(
    "given", [{"args": "12"}, {"args": {"by": 2}}, {"args": [2], "destinations": "hq"}]
)
def test_a_single_value_is_no_list(orders: Directory, given: dict[str, Any]) -> None:
    """It would be taken for the list of its letters."""
    jfk = orders["jfk"]
    with pytest.raises(TypeError, match="takes a list"), jfk.begin() as connection:
        deferred.call(connection, "divide", **given)
    assert queued(jfk) == 0


def test_what_cannot_call_is_refused(orders: Directory) -> None:
    """A coordinated transaction; a procedure that was itself called here."""
    jfk = orders["jfk"]

    @deferred.procedure("nested")
    def nested(connection: Connection) -> None:
        deferred.call(connection, "divide", [1])

    refused = "cannot defer a call itself"
    with jfk.begin() as connection, pytest.raises(DBAPIError, match=refused):
        deferred.call(connection, "nested", here=True)
    refused = "coordinated transaction cannot defer"
    with (
        pytest.raises(DBAPIError, match=refused),
        synchronous.begin(jfk) as connection,
    ):
        deferred.call(connection, "divide", [1])
    assert queued(jfk) == 0
    assert parked(orders["hq"]) == []
