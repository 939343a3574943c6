"""A push's trace ends where a refresh brought it; a check is a span."""

from collections.abc import Callable

import pytest

import deferred
import groups
import snapshots
from sites import Directory, Site, faults, traces
from snapshots.refreshing import refresh_once
from tests.fix_sites import log
from tests.fix_spans import Spans, facts, is_below, linked, trace_of
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, found_group
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk", "lax")
def flights(sites: Directory) -> None:
    """A table at headquarters, and an updatable snapshot of it at two branches."""
    hq = sites["hq"]
    run(hq, "CREATE TABLE flight (id int PRIMARY KEY, seats int)")
    run(hq, "INSERT INTO flight VALUES (1, 100), (2, 100)")
    log(hq, "flight")
    for name in ("jfk", "lax"):
        snapshots.create(sites[name], "flight", master="hq", updatable=True)
        refresh(sites[name], "flight")


def sell(site: Site) -> None:
    run(site, "UPDATE flight SET seats = seats - 1 WHERE id = 1")
    deferred.push(site)


def test_refresh_elsewhere_is_linked_to_the_push(
    flights: Directory, spans: Spans
) -> None:
    sell(flights["jfk"])
    push = spans.one("push")
    refresh(flights["lax"], "flight")
    first = spans.one("refresh")
    assert linked(first) == [trace_of(push)]
    assert trace_of(first) != trace_of(push)
    assert facts(first) == {
        "site": "lax",
        "group": "flight",
        "master": "hq",
        "inserted": 0,
        "updated": 1,
        "deleted": 0,
        "held_back": 0,
    }
    for name in ("window", "compare", "merge"):
        assert is_below(spans.one(name), first)
    # The push's own trace goes on to where its changes came.
    arrived = spans.one("arrive")
    assert trace_of(arrived) == trace_of(push)
    assert is_below(arrived, push)
    assert linked(arrived) == [trace_of(first)]
    assert facts(arrived) == {"site": "lax", "group": "flight"}
    # What was brought once is not linked again.
    spans.forget()
    run(flights["hq"], "UPDATE flight SET seats = 7 WHERE id = 2")
    refresh(flights["lax"], "flight")
    assert linked(spans.one("refresh")) == []
    assert spans.named("arrive") == []


def test_refresh_that_fails_before_its_commit_has_brought_nothing(
    flights: Directory, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    sell(flights["jfk"])
    monkeypatch.setenv("SNAPTIDE_FAULT", "refresh.after_stage:error")
    with pytest.raises(faults.InjectedFault):
        refresh(flights["lax"], "flight")
    assert linked(spans.one("refresh")) == [trace_of(spans.one("push"))]
    assert spans.named("arrive") == []


def test_batch_that_goes_on_after_a_refresh_is_linked_again(
    flights: Directory, spans: Spans
) -> None:
    for _ in range(2):
        run(flights["jfk"], "UPDATE flight SET seats = seats - 1 WHERE id = 1")
    deferred.push(flights["jfk"], transaction_count=1, group_max_calls=0)
    push = spans.one("push")
    refresh(flights["lax"], "flight")
    deferred.push(flights["jfk"])
    refresh(flights["lax"], "flight")
    assert [linked(one) for one in spans.named("refresh")] == [[trace_of(push)]] * 2


def test_refresh_is_linked_to_the_newest_batches(
    flights: Directory, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_once, "LINKS", 2)
    for _ in range(3):
        sell(flights["jfk"])
    refresh(flights["lax"], "flight")
    newest = [trace_of(one) for one in reversed(spans.named("push"))]
    assert linked(spans.one("refresh")) == newest[:2]
    assert [trace_of(one) for one in spans.named("arrive")] == newest[:2]


def test_push_of_a_refresh_is_below_it(flights: Directory, spans: Spans) -> None:
    run(flights["jfk"], "UPDATE flight SET seats = 3 WHERE id = 1")
    snapshots.refresh(flights["jfk"], "flight")
    assert is_below(spans.one("push"), spans.one("refresh"))
    assert is_below(spans.one("arrive"), spans.one("refresh"))


def test_refresh_that_nobody_traces_asks_for_no_links(
    flights: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    sell(flights["jfk"])
    monkeypatch.setattr(refresh_once, "ledger", None)
    monkeypatch.setattr(traces, "_FORMAT", None)
    assert refresh(flights["lax"], "flight")["flight"].updated == 1


def test_check_is_a_span(flights: Directory, spans: Spans) -> None:
    sell(flights["jfk"])
    spans.forget()
    snapshots.check(flights["lax"], "flight")
    assert facts(spans.one("check")) == {
        "site": "lax",
        "group": "flight",
        "master": "hq",
        "rows": 2,
        "differing": 1,
        "unexplained": 0,
    }


def test_check_of_a_group_is_a_span(
    make_sites: Callable[..., Directory], spans: Spans
) -> None:
    sites = make_sites("hq", "lax")
    found_group(sites, "hq", "lax")
    spans.forget()
    groups.check(sites["hq"], GROUP)
    assert facts(spans.one("check")) == {
        "site": "hq",
        "group": GROUP,
        "masters": 2,
        "differing": 0,
        "unexplained": 0,
    }
