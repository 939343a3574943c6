"""Groups of many sites are refreshed at once, each as by its own refresh."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import make_url

import snapshots
from sites import Directory, Site
from snapshots.definitions import refresh_group
from snapshots.refreshing import many
from snapshots.reports import GroupRefreshed
from tests.divided import AIRPORTS, divide
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.linked_table import rows, run
from tests.stories import assert_equal_to_master, refresh


@prepared_once("hq", *AIRPORTS, needs="spark")
def divided(sites: Directory) -> None:
    divide(sites)


@pytest.fixture
def command(divided: Directory, write_settings: WriteSettings) -> Snaptide:
    """Commands with the settings of these sites."""
    return Snaptide(write_settings(divided))


def states(found: list[GroupRefreshed]) -> dict[str, tuple[str | None, str]]:
    return {one.site: (one.group, one.state) for one in found}


def change(sites: Directory) -> None:
    """Rows of each airport change, and three move from one to the next."""
    run(
        sites["hq"],
        "UPDATE flights SET seats = 99 WHERE id % 5 = 0",
        "UPDATE flights SET origin = 'LAX' WHERE id = 3",
        "UPDATE flights SET origin = 'SFO' WHERE id = 4",
        "UPDATE flights SET origin = 'JFK' WHERE id = 5",
    )


def test_each_site_gets_its_rows(divided: Directory) -> None:
    change(divided)
    found = snapshots.refresh_many([*divided.values()])
    assert states(found) == dict.fromkeys(AIRPORTS, ("flights", "done"))
    reports = [one.report for one in found if one.report]
    written = [(s.inserted, s.deleted) for one in reports for s in one.snapshots]
    assert written == [(1, 1)] * 3
    assert_equal_to_master(*(divided[name] for name in AIRPORTS))


def test_a_site_that_fails_or_is_away_stops_no_other(divided: Directory) -> None:
    change(divided)
    there = {name: site.url for name, site in divided.items()}
    away = make_url("postgresql://nobody@127.0.0.1:1/nothing")
    before = rows(divided["lax"], "flights")
    with (
        Directory({**there, "bos": away}) as sites,
        refresh_group.exclusively(sites["lax"], "flights"),
    ):
        found = snapshots.refresh_many([*sites.values()])
    assert states(found) == {
        "jfk": ("flights", "done"),
        "lax": ("flights", "refused"),
        "sfo": ("flights", "done"),
        "bos": (None, "away"),
    }
    assert [one.code for one in found if one.report is None] == ["SNP-205", "SNP-002"]
    assert rows(divided["lax"], "flights") == before
    assert_equal_to_master(divided["jfk"], divided["sfo"])


def test_no_group_begins_after_an_interrupt(
    divided: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    first, over = threading.Event(), threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *given: Any, **how: Any) -> None:
            over.set()
            super().shutdown(*given, **how)

    def refreshed(site: Site, group: str) -> None:
        if site.name == "jfk":
            assert first.wait(10)
            raise KeyboardInterrupt
        begun.append(group)
        first.set()
        assert over.wait(10)

    monkeypatch.setattr(many, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(many, "refresh", refreshed)
    monkeypatch.setattr(refresh_group, "names", lambda *_: ["one", "two"])
    with pytest.raises(KeyboardInterrupt):
        snapshots.refresh_many([divided["jfk"], divided["lax"]])
    assert begun == ["one"]


def test_only_groups_of_one_master(divided: Directory, command: Snaptide) -> None:
    jfk, lax = divided["jfk"], divided["lax"]
    run(jfk, "CREATE TABLE gates (id int PRIMARY KEY)")
    log(jfk, "gates")
    snapshots.create(lax, "gates", master="jfk")
    refresh(lax, "gates")
    run(jfk, "INSERT INTO gates VALUES (1)")
    change(divided)
    found = command.report("refresh", "--all", "--master", "jfk")
    assert [(one["site"], one["group"]) for one in found] == [("lax", "gates")]
    assert rows(lax, "gates") == [(1,)]
    found = command.report("refresh", "lax", "--all", "--method", "c")
    assert [(one["group"], one["state"]) for one in found] == [
        ("flights", "done"),
        ("gates", "done"),
    ]
    assert found[0]["report"]["snapshots"][0]["method"] == "complete"
    assert_equal_to_master(lax)


def test_the_command_says_what_failed(divided: Directory, command: Snaptide) -> None:
    change(divided)
    with refresh_group.exclusively(divided["lax"], "flights"):
        said = command.said("refresh", "--all", code=1)
    assert "lax flights: SNP-205" in said
    assert "sfo   flights  done" in said
    run(divided["hq"], "ALTER TABLE flights DROP COLUMN seats")
    said = command.said("refresh", "sfo", "--all", code=1)
    assert "seats" in said
    assert "nothing" not in command.said("refresh", "hq", "--all")


def test_what_cannot_be_meant_is_refused(command: Snaptide) -> None:
    for wrong in (
        ["jfk"],
        [],
        ["jfk", "flights", "--master", "hq"],
        ["jfk", "flights", "--all"],
        ["--all", "--enqueue"],
    ):
        assert "SNP" in command.said("refresh", *wrong, code=2)
