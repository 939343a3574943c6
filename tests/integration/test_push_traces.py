"""A push is one trace, from its site to the apply, and its batch carries it."""

import uuid
from collections.abc import Callable

import pytest
from opentelemetry.trace import StatusCode

import deferred
from benchmarks.walk import walked
from deferred.errors import TransactionRefused
from deferred.pushing import batch_by_batch
from sites import Directory, Site, faults
from sites.errors import SiteUnreachable
from tests.fix_spans import Spans, context_of, facts, is_below, linked, trace_of
from tests.fix_worlds import prepared_once
from tests.linked_table import application, as_refresh, link, rows, run, scalar

SECRET = "Zanzibar"


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    """An order at both sites; nothing is queued."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0)")


def carried(sites: Directory) -> tuple[object, object]:
    """What the newest batch carries, at its origin and at the destination."""
    newest = "SELECT traceparent FROM snaptide.push_batch ORDER BY number DESC LIMIT 1"
    return (
        scalar(sites["jfk"], "SELECT traceparent FROM snaptide.destination"),
        scalar(sites["hq"], newest),
    )


def push_cut_off(site: Site, point: str) -> None:
    """Begin a push that ends at a fault point."""
    faults._hits.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPTIDE_FAULT", f"{point}:error")
        with pytest.raises(faults.InjectedFault):
            deferred.push(site)


def test_push_and_apply_are_one_trace(orders: Directory, spans: Spans) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    run(orders["jfk"], "UPDATE orders SET qty = 2")
    deferred.push(orders["jfk"])
    push, ship, apply = (spans.one(name) for name in ("push", "ship", "apply"))
    cut, looked = spans.named("cut")
    for one in (cut, looked, ship, apply):
        assert trace_of(one) == trace_of(push)
        assert is_below(one, push)
    batch = scalar(orders["hq"], "SELECT id FROM snaptide.push_batch")
    ends = {"site": "jfk", "destination": "hq"}
    its = ends | {"batch_number": 1, "batch_id": str(batch)}
    assert facts(cut) == its
    assert facts(looked) == ends
    assert facts(apply) == its | {"transactions": 2, "calls": 2}
    assert facts(ship)["pieces"] == 1
    counts = {"transactions": 2, "calls": 2, "parked": 0, "resolved": 0, "held_back": 0}
    assert facts(push) == ends | counts
    assert uuid.UUID(str(facts(ship)["batch_id"])) == batch


def test_batch_carries_the_push_at_both_ends(orders: Directory, spans: Spans) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    deferred.push(orders["jfk"])
    push = context_of(spans.one("push"))
    flags = push.trace_flags
    expected = f"00-{push.trace_id:032x}-{push.span_id:016x}-{flags:02x}"
    assert carried(orders) == (expected, expected)


def test_number_of_spans_does_not_grow_with_transactions(
    orders: Directory, spans: Spans
) -> None:
    for _ in range(30):
        run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
    deferred.push(orders["jfk"], group_max_calls=0)
    assert len(spans.all()) == 5
    assert facts(spans.one("apply"))["transactions"] == 30


def test_streams_ship_in_the_trace_of_the_push(orders: Directory, spans: Spans) -> None:
    for number in range(2, 40):
        run(orders["jfk"], f"INSERT INTO orders VALUES ({number}, 'n{number}', 0)")
    deferred.push(orders["jfk"], parallelism=2, group_max_calls=4)
    assert is_below(spans.one("ship"), spans.one("push"))
    assert int(str(facts(spans.one("ship"))["pieces"])) > 1
    assert len(rows(orders["hq"])) == 39


@pytest.mark.parametrize("point", ["push.after_cut", "push.after_plan"])
def test_batch_of_a_push_that_was_cut_off_keeps_its_trace(
    orders: Directory, spans: Spans, point: str
) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    push_cut_off(orders["jfk"], point)
    first = spans.one("push")
    spans.forget()
    deferred.push(orders["jfk"])
    second = spans.one("push")
    assert trace_of(second) != trace_of(first)
    for one in (spans.one("ship"), spans.one("apply")):
        assert is_below(one, first)
        assert linked(one) == [trace_of(second)]
    assert rows(orders["hq"])[0][2] == 1


def test_next_batch_is_of_its_own_trace(orders: Directory, spans: Spans) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    deferred.push(orders["jfk"])
    first = spans.one("push")
    spans.forget()
    run(orders["jfk"], "UPDATE orders SET qty = 2")
    deferred.push(orders["jfk"])
    assert is_below(spans.one("apply"), spans.one("push"))
    assert trace_of(spans.one("apply")) != trace_of(first)


def test_without_an_sdk_nothing_is_stored(orders: Directory) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    deferred.push(orders["jfk"])
    assert carried(orders) == (None, None)


def test_batch_of_an_untraced_push_goes_on_in_a_traced_one(
    orders: Directory, request: pytest.FixtureRequest
) -> None:
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    push_cut_off(orders["jfk"], "push.after_cut")
    spans: Spans = request.getfixturevalue("spans")
    deferred.push(orders["jfk"])
    assert is_below(spans.one("apply"), spans.one("push"))
    here, there = carried(orders)
    assert here is None
    assert f"{trace_of(spans.one('push')):032x}" in str(there)


def test_nothing_of_rows_is_told(orders: Directory, spans: Spans) -> None:
    run(orders["hq"], "UPDATE orders SET qty = 5")
    run(orders["jfk"], f"INSERT INTO orders VALUES (98765, '{SECRET}', 1)")
    as_refresh(orders["hq"], f"INSERT INTO orders VALUES (98766, '{SECRET}', 1)")
    assert deferred.push(orders["jfk"]).errors == 1
    told = "".join(one.to_json() for one in spans.all())
    assert SECRET not in told
    assert "9876" not in told


def test_error_is_told_by_its_code_alone(orders: Directory, spans: Spans) -> None:
    refuse = f"ALTER TABLE orders ADD CONSTRAINT {SECRET} CHECK (id < 10)"
    run(orders["hq"], refuse)
    run(orders["jfk"], "INSERT INTO orders VALUES (98765, 'b', 1)")
    with pytest.raises(TransactionRefused, match=SECRET.lower()):
        deferred.push(orders["jfk"], error_action="stop")
    for name in ("apply", "push"):
        failed = spans.one(name)
        assert failed.status.status_code is StatusCode.ERROR
        assert failed.status.description == TransactionRefused.code
        assert facts(failed)["error.type"] == "TransactionRefused"
        assert failed.events == ()
    assert spans.one("ship").status.status_code is StatusCode.UNSET
    told = "".join(one.to_json() for one in spans.all())
    assert SECRET.lower() not in told
    assert "98765" not in told


def test_credentials_are_not_told(orders: Directory, spans: Spans) -> None:
    here = orders["jfk"].url.render_as_string(hide_password=False)
    away = f"postgresql://someone:{SECRET}@127.0.0.1:1/nowhere"
    directory = Directory({"jfk": here, "hq": away})
    with pytest.raises(SiteUnreachable):
        deferred.push(directory["jfk"])
    directory.close()
    failed = spans.one("push")
    assert failed.status.description == SiteUnreachable.code
    told = "".join(one.to_json() for one in spans.all())
    assert SECRET not in told
    assert "someone" not in told


def test_user_who_holds_a_row_costs_an_attempt(
    orders: Directory, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = application(orders["hq"])
    blocker.execute("SELECT * FROM orders FOR UPDATE")
    monkeypatch.setattr(batch_by_batch, "PAUSES", (0.01,) * 2)
    run(orders["jfk"], "UPDATE orders SET qty = 1")
    with pytest.raises(deferred.PushInterrupted):
        deferred.push(orders["jfk"])
    blocker.close()
    attempts = spans.named("apply")
    assert len(attempts) == 3
    assert {one.status.status_code for one in attempts} == {StatusCode.ERROR}


def test_pushes_to_several_are_below_the_callers_span(
    make_sites: Callable[..., Directory], spans: Spans
) -> None:
    sites = make_sites("hq", "lax", "jfk")
    link(sites, "a", "id int PRIMARY KEY", master="hq")
    link(sites, "b", "id int PRIMARY KEY", master="lax")
    for table in ("a", "b"):
        run(sites["jfk"], f"INSERT INTO {table} VALUES (1)")
    with spans.provider.get_tracer("mine").start_as_current_span("mine"):
        deferred.push_all(sites["jfk"]).raise_first()
    assert len(spans.named("push")) == 2
    for one in spans.named("push"):
        assert is_below(one, spans.one("mine"))


def test_trace_costs_no_statement(
    orders: Directory, request: pytest.FixtureRequest
) -> None:
    def statements() -> int:
        run(orders["jfk"], "UPDATE orders SET qty = qty + 1")
        with walked() as walk:
            deferred.push(orders["jfk"])
        return len(walk.statements)

    statements()
    untraced = statements()
    request.getfixturevalue("spans")
    assert statements() == untraced
