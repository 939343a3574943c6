"""A site is away until its master lets go of it, and comes back with all its edits."""

from __future__ import annotations

from datetime import timedelta

import pytest

import deferred
import masters
import snapshots
from groups import tasks
from masters import ContractState, OnBreach
from masters.contracts import even_time
from sites import Directory, configured
from sites.configured import Configuration
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import parked, queued, run, run_each, scalar
from tests.stories import assert_equal_to_master, refresh

# A snapshot is compared with its master table by Spark.
pytestmark = pytest.mark.usefixtures("spark")

MINUTE, DAY = 60.0, 86400.0

ROWS = 20_000


@prepared_once("hq", "jfk", "lax", needs="spark")
def world(sites: Directory) -> None:
    """Two sites have the rows of a table at hq, and contracts about them."""
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, a int, b text)",
        f"INSERT INTO public.t SELECT i, 0, 'old' FROM generate_series(1, {ROWS}) i",
        "CREATE TABLE public.codes (id int PRIMARY KEY)",
        "INSERT INTO public.codes VALUES (1)",
    )
    log(sites["hq"], "t", "codes")
    for name in ("jfk", "lax"):
        snapshots.create(sites[name], "t", master="hq", group="g", updatable=True)
        snapshots.create(sites[name], "codes", master="hq", group="g")
        refresh(sites[name], "g")
        snapshots.set_contract(
            sites[name],
            "g",
            visible_within=timedelta(minutes=15),
            may_be_away=timedelta(days=30),
            on_breach=OnBreach.RELEASE,
        )


@pytest.fixture
def passes(world: Directory, monkeypatch: pytest.MonkeyPatch) -> Directory:
    """The same, with a worker at hq whose machine runs as the test wants."""
    ours = Configuration(directory=world)
    monkeypatch.setattr(configured, "_current", ours)
    return world


def leave(world: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jfk be away for 31 days, on which lax goes on; both change rows."""
    hq, jfk, lax = (world[name] for name in ("hq", "jfk", "lax"))
    edits = [f"UPDATE t SET b = 'jfk' WHERE id = {row}" for row in range(1, 49)]
    insert = f"INSERT INTO t VALUES ({ROWS + 1}, 1, 'jfk')"
    run_each(jfk, *edits, insert, f"DELETE FROM t WHERE id = {ROWS}")
    run(
        hq,
        "UPDATE public.t SET a = 1 WHERE id % 100 = 50",
        "UPDATE public.t SET b = 'hq' WHERE id BETWEEN 31 AND 40",
        f"DELETE FROM public.t WHERE id = {ROWS - 1}",
    )
    start = 0.0
    for seconds in (0, MINUTE, 31 * DAY):
        start += seconds
        monkeypatch.setattr(even_time, "reading", lambda now=start: ("machine", now))
        if seconds > MINUTE:
            refresh(lax, "g")
        tasks.keep_contracts(hq)
    states = {one.site: one.state for one in masters.list_contracts(hq)}
    assert states == {"jfk": ContractState.RELEASED, "lax": ContractState.KEPT}
    assert scalar(hq, 'SELECT count(*) FROM snaptide."mlog$_t"') == 0


def test_site_comes_back_after_it_was_released(
    passes: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = passes["hq"], passes["jfk"]
    leave(passes, monkeypatch)
    report = snapshots.refresh(jfk, "g")
    # Nothing of the other one was to be purged, so the log was kept.
    methods = {one.name: one.method for one in report.snapshots}
    assert methods == {"codes": "fast", "t": "complete"}
    # Ten transactions were in conflict: they are parked, as ever.
    assert report.pushed is not None
    assert (report.pushed.transactions, report.pushed.errors) == (50, 10)
    errors = deferred.list_errors(hq)
    assert (queued(jfk), {one.origin for one in errors}) == (0, {"jfk"})
    run(hq, "UPDATE public.t SET b = 'old' WHERE id BETWEEN 31 AND 40")
    deferred.retry_errors(hq, [one.id for one in errors])
    assert parked(hq) == []
    assert scalar(hq, "SELECT count(*) FROM public.t WHERE b = 'jfk'") == 49
    assert not scalar(hq, f"SELECT count(*) FROM public.t WHERE id = {ROWS}")
    refresh(jfk, "g")
    refresh(passes["lax"], "g")
    assert_equal_to_master(jfk, passes["lax"])
    assert snapshots.check(jfk, "g").equal
    tasks.keep_contracts(hq)
    states = [one.state for one in masters.contract_changes(hq, "jfk", "g")]
    assert states[:2] == [ContractState.KEPT, ContractState.RELEASED]


def test_return_is_fast_if_the_logs_still_reach(
    passes: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another site has kept them: it is told, and not released."""
    hq, jfk, lax = (passes[name] for name in ("hq", "jfk", "lax"))
    snapshots.set_contract(lax, "g", may_be_away=timedelta(days=30))
    run(hq, "UPDATE public.t SET a = 1 WHERE id = 5")
    for now in (0.0, MINUTE, 31 * DAY):
        monkeypatch.setattr(even_time, "reading", lambda now=now: ("machine", now))
        tasks.keep_contracts(hq)
    states = {one.site: one.state for one in masters.list_contracts(hq)}
    assert states == {"jfk": ContractState.RELEASED, "lax": ContractState.BROKEN}
    found = refresh(jfk, "g")
    assert (found["t"].method, found["t"].updated) == ("fast", 1)
    refresh(lax, "g")
    assert_equal_to_master(jfk, lax)
