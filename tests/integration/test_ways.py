"""What a way of a refresh has cost is noted, and a contract has the cheapest taken."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

import masters
import snapshots
from groups import tasks
from masters import ContractState, OnBreach
from sites import Directory, Site
from snapshots import WayTaken
from snapshots.differences import buckets, comparison
from snaptide import migrate
from snaptide.status import status_of
from tests.console import Browser, console
from tests.fix_clock import Machine
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run, scalar
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

KEPT, LATE, BROKEN, RELEASED = ContractState
ROWS = 300
AWAY = timedelta(days=30)
DAY = 86400.0


@prepared_once("hq", "jfk", "lax")
def sites(sites: Directory) -> None:
    """A large snapshot, as far as the tests are concerned, and a small one."""
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, a int)",
        f"INSERT INTO public.t SELECT i, 0 FROM generate_series(1, {ROWS}) i",
        "CREATE TABLE public.codes (id int PRIMARY KEY)",
        "INSERT INTO public.codes VALUES (1)",
        "ANALYZE public.t",
        "ANALYZE public.codes",
    )
    log(sites["hq"], "t", "codes")
    for name in ("jfk", "lax"):
        snapshots.create(sites[name], "t", master="hq", group="g")
        snapshots.create(sites[name], "codes", master="hq", group="g")
        refresh(sites[name], "g")


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "SMALL_WINDOW", 100)


def repaired(site: Site) -> None:
    snapshots.set_contract(site, "g", may_be_away=AWAY, on_breach=OnBreach.REPAIR)


def change(sites: Directory) -> None:
    run(sites["hq"], "UPDATE public.t SET a = a + 1 WHERE id <= 20")


def noted(site: Site) -> Mapping[str, WayTaken]:
    return snapshots.list_refreshes(site, "g", limit=1)[0].ways


def planted(site: Site, **costs: tuple[int, float]) -> None:
    """Let a refresh be noted for each way, of that size and so many seconds."""
    for way, (size, seconds) in costs.items():
        one = {"way": way, "size": size, "seconds": seconds, "estimates": {}}
        run(
            site,
            "INSERT INTO snaptide.refresh_run"
            " (refresh_group, outcome, first_at, ended_at, seconds, steps, ways)"
            " VALUES ('g', 'refreshed', now(), now(), 1, '{}',"
            f" '{json.dumps({'t': one})}')",
        )


def test_each_way_is_noted_with_its_cost(
    sites: Directory, snaptide: Snaptide, monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk = sites["jfk"]
    assert noted(jfk) == {}
    change(sites)
    refresh(jfk, "g")
    found = noted(jfk)
    assert {name: (one.way, one.size) for name, one in found.items()} == {
        "t": ("fast", 20),
        "codes": ("fast", 0),
    }
    assert found["t"].seconds > 0
    assert found["t"].estimates == {}
    change(sites)
    refresh(jfk, "g", method="cc")
    ways = {name: (one.way, one.size) for name, one in noted(jfk).items()}
    assert ways == {"t": ("sums", ROWS), "codes": ("complete", 1)}
    change(sites)
    monkeypatch.setattr(buckets, "mostly_differ", lambda *_: True)
    refresh(jfk, "g", method="cc")
    assert noted(jfk)["t"].way == "complete"
    steps = snapshots.list_refreshes(jfk, "g", limit=1)[0].steps
    assert sum(one.seconds for one in noted(jfk).values()) <= steps["compare"]
    listed = snaptide.report("snapshot", "refreshes", "jfk", "g")[0]
    assert listed["ways"]["t"]["way"] == "complete"
    assert f"t: sums of about {ROWS} rows in " in snaptide.said(
        "snapshot", "refreshes", "jfk", "g"
    )
    refresh(jfk, "g")
    assert noted(jfk) == {}
    [group] = status_of(jfk, alone=True).groups
    assert group.ways["t"]["way"] == "complete"


def test_contract_has_the_cheapest_way_taken(sites: Directory) -> None:
    jfk = sites["jfk"]
    planted(jfk, fast=(20, 9.0), sums=(ROWS, 0.5), complete=(ROWS, 3.0))
    change(sites)
    assert refresh(jfk, "g")["t"].method == "fast"
    assert noted(jfk)["t"].estimates == {}
    planted(jfk, fast=(20, 9.0))
    repaired(jfk)
    change(sites)
    done = refresh(jfk, "g")
    assert (done["t"].method, done["t"].updated) == ("complete", 20)
    found = noted(jfk)
    assert (found["t"].way, found["codes"].way) == ("sums", "fast")
    assert found["t"].estimates["sums"] == 0.5
    assert found["t"].estimates["fast"] > found["t"].estimates["complete"] == 3.0
    planted(jfk, complete=(ROWS, 0.1), sums=(ROWS, 5.0))
    planted(jfk, complete=(ROWS, 0.1), sums=(ROWS, 5.0))
    change(sites)
    refresh(jfk, "g")
    assert noted(jfk)["t"].way == "complete"
    change(sites)
    refresh(jfk, "g", method="ff")
    assert noted(jfk)["t"].way == "fast"
    assert run(jfk, "SELECT * FROM public.t ORDER BY id") == run(
        sites["hq"], "SELECT * FROM public.t ORDER BY id"
    )
    snapshots.set_contract(jfk, "g", may_be_away=AWAY)
    change(sites)
    assert refresh(jfk, "g")["t"].method == "fast"


def test_ways_are_shown_with_the_contract_and_in_the_console(
    sites: Directory, snaptide: Snaptide, tmp_path: Path
) -> None:
    jfk, words = sites["jfk"], ("contract", "show", "hq", "jfk", "g")
    repaired(jfk)
    shown = snaptide.report(*words)
    assert (shown["refreshes"], shown["not_said"]) == ([], None)
    planted(jfk, fast=(20, 9.0), sums=(ROWS, 0.5), complete=(ROWS, 3.0))
    change(sites)
    refresh(jfk, "g")
    [first, *_] = snaptide.report(*words)["refreshes"]
    assert first["ways"]["t"]["way"] == "sums"
    assert first["ways"]["t"]["estimates"] == {
        "fast": 9.0,
        "sums": 0.5,
        "complete": 3.0,
    }
    expected = r"t: sums of about 300 rows in [\d.]+ s "
    expected += r"\(expected: fast 9.0 s, sums 0.5 s, complete 3.0 s\)"
    assert re.search(expected, snaptide.said(*words))
    page = Browser(console(sites, tmp_path)).get("/sites/jfk/groups/g")
    assert re.search(
        rf'data-label="Ways"><bdi>{expected}</bdi><br><bdi>codes: fast, 0 changed', page
    )
    assert re.search(r"complete, about 300 rows in 3.0 s<", page)
    run(sites["jfk"], "ALTER SCHEMA snaptide RENAME TO away")
    shown = snaptide.report(*words)
    assert shown["refreshes"] is None
    assert shown["not_said"].startswith("SNP-")
    assert "jfk does not say which ways it took: SNP-" in snaptide.said(*words)


def test_ways_without_known_cost_are_taken_as_ever(sites: Directory) -> None:
    jfk = sites["jfk"]
    repaired(jfk)
    planted(jfk, sums=(ROWS, 0.001), complete=(ROWS, 0.001))
    change(sites)
    assert refresh(jfk, "g")["t"].method == "fast"
    run(sites["hq"], "TRUNCATE public.t", f"INSERT INTO public.t VALUES ({ROWS}, 1)")
    snapshots.refresh(jfk, "g", allow_mass_delete=True)
    assert noted(jfk)["t"].way == "complete"
    assert noted(jfk)["t"].size is None


def test_site_that_was_away_is_repaired(sites: Directory, machine: Machine) -> None:
    """Its logs are kept although it breaks the contract, and so its return is fast."""
    hq, jfk = sites["hq"], sites["jfk"]
    repaired(jfk)
    change(sites)
    states = []
    for days in (0, 31, 60):
        machine.passes(days * DAY)
        refresh(sites["lax"], "g")
        tasks.keep_contracts(hq)
        masters.purge_snapshot_logs(hq)
        states += [one.state for one in masters.list_contracts(hq)]
    assert states == [KEPT, BROKEN, BROKEN]
    assert scalar(hq, 'SELECT count(*) FROM snaptide."mlog$_t"') == 20
    done = refresh(jfk, "g")
    assert (done["t"].method, done["t"].updated) == ("fast", 20)
    tasks.keep_contracts(hq)
    changes = masters.contract_changes(hq, "jfk", "g")
    assert [one.state for one in changes] == [KEPT, BROKEN]


def test_repair_keeps_no_more_logs_than_the_share(
    sites: Directory, machine: Machine
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    planted(jfk, sums=(ROWS, 0.5), complete=(ROWS, 3.0))
    snapshots.set_contract(
        jfk, "g", may_be_away=AWAY, log_share=1000, on_breach=OnBreach.REPAIR
    )
    run(hq, "UPDATE public.t SET a = 1 WHERE id <= 100")
    refresh(sites["lax"], "g")
    machine.passes(31 * DAY)
    tasks.keep_contracts(hq)
    [found] = masters.list_contracts(hq)
    assert found.state is RELEASED
    assert "its share is 1,000." in str(found.reason)
    assert scalar(hq, 'SELECT count(*) FROM snaptide."mlog$_t"') == 0
    done = refresh(jfk, "g")
    assert (done["t"].method, done["t"].updated) == ("complete", 100)
    assert noted(jfk)["t"].way == "sums"
    assert noted(jfk)["t"].estimates == {"sums": 0.5, "complete": 3.0}
    tasks.keep_contracts(hq)
    [found] = masters.list_contracts(hq)
    assert (found.state, found.on_breach) == (KEPT, OnBreach.REPAIR)
    assert_equal_to_master(jfk, sites["lax"])


def test_site_learns_at_its_next_contact_whether_it_is_repaired(
    sites: Directory,
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    repaired(jfk)
    assert scalar(jfk, "SELECT repair FROM snaptide.promise")
    masters.drop_contract(hq, "jfk", "g")
    change(sites)
    refresh(jfk, "g")
    assert scalar(jfk, "SELECT count(*) FROM snaptide.promise") == 0


def test_older_version_tells_of_a_breach(sites: Directory) -> None:
    hq = sites["hq"]
    repaired(sites["jfk"])
    migrate.downgrade(hq, "0083")
    assert scalar(hq, "SELECT on_breach FROM snaptide.contract") == "tell"
    migrate.upgrade(hq)
    [found] = masters.list_contracts(hq)
    assert found.on_breach is OnBreach.TELL
