"""Where people see that a snapshot stays behind its group, and why."""

from pathlib import Path

import pytest

import snapshots
import snapshots.tasks
from sites import Directory, Site, configured
from sites.configured import Configuration
from snapshots.errors import ColumnGone
from snaptide import doctor
from snaptide.plan.steps import RefreshGroup
from snaptide.status import status_of
from tests.console import Browser, console
from tests.fix_commands import Snaptide
from tests.fix_worlds import prepared_once
from tests.integration.test_refresh_behind import RENAME, make_airport
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_airport(sites)


def test_people_are_told(hq: Site, jfk: Site, snaptide: Snaptide) -> None:
    run(hq, RENAME, "UPDATE airline SET title = 'new' WHERE id = 1")
    snapshots.refresh(jfk, "airport")

    [group] = status_of(jfk).groups
    assert [one.snapshot for one in group.behind] == ["airline", "flight"]
    first, now = group.behind[0].refreshed_at, group.refreshed_at
    assert first is not None
    assert now is not None
    assert first < now
    assert group.behind[0].todo == ColumnGone.hint
    assert group.lag is not None
    assert group.lag.rows == 1
    assert group.behind[1].why.startswith("it depends on airline: SNP-214")
    screen = snaptide.said("status", "jfk", code=3)
    assert "stays behind" in screen
    found = [one for one in doctor.examine(jfk) if "airport" in one.subject]
    assert "airline: SNP-214" in found[0].what

    [past, *_] = snapshots.list_refreshes(jfk, "airport")
    assert past.outcome == "refreshed"
    assert past.error is not None
    assert "airline: SNP-214" in past.error
    assert "flight" in past.error


def test_a_worker_warns_of_each(
    sites: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(configured, "_current", Configuration(directory=sites))
    caplog.set_level("INFO", "snapshots.tasks")
    run(sites["hq"], RENAME)
    snapshots.tasks.refresh("jfk", "airport")
    told = {one.levelname: one.getMessage() for one in caplog.records}
    assert "2 snapshots left behind in" in told["INFO"]
    first, second = (r.getMessage() for r in caplog.records if r.levelname != "INFO")
    assert "airline stays behind: SNP-214 airline no longer has the column" in first
    assert "Hint: If snaptide ddl changed it, refresh the group" in first
    assert second.endswith("flight stays behind: it depends on airline.")


def test_applying_a_file_ends_with_a_note_of_each(sites: Directory) -> None:
    run(sites["hq"], RENAME)
    done = RefreshGroup(site="jfk", group="airport").run(sites)
    first, second = done.attention
    assert first.startswith("airline stays behind: SNP-214 airline no longer")
    assert second.startswith("flight stays behind: SNP-214 airline no longer")


def test_the_console_names_them(sites: Directory, tmp_path: Path) -> None:
    run(sites["hq"], RENAME)
    snapshots.refresh(sites["jfk"], "airport")
    page = Browser(console(sites, tmp_path)).get("/sites/jfk/groups/airport")
    assert page.count("stays behind</span>") == 2
    assert "it depends on airline: SNP-214" in page
