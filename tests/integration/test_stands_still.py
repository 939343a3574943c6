"""What stands still and ought to run ends `status` with 3, and doctor says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import deferred
import masters
import snapshots
from deferred import runs, schedules
from deferred.queues.backlog import set_disabled
from sites import Directory, Site
from sites.errors import SnaptideError
from sites.sessions import activity
from tests.fix_commands import Snaptide
from tests.fix_worker import WriteSettings
from tests.linked_table import link, run

HOUR = "interval '1 hour'"


class Told:
    """What status and doctor tell of a site."""

    def __init__(self, config: Path) -> None:
        self.call = Snaptide(config)

    def subjects(self, site: str = "jfk") -> list[str]:
        """What status finds, after it is seen that doctor and the codes agree."""
        status = self.call("status", site, "--json")
        (report,) = json.loads(status.stdout)
        found: list[dict[str, Any]] = report["findings"]
        assert status.exit_code == (3 if found else 0), status.output
        doctor = json.loads(self.call("doctor", site, "--json").stdout)
        assert all(one in doctor for one in found), doctor
        for one in found:
            assert one["todo"]
            assert one["what"] in self.call("status", site).stdout
        return [one["subject"] for one in found]


@pytest.fixture
def told(sites: Directory, write_settings: WriteSettings) -> Told:
    return Told(write_settings(sites))


@pytest.fixture
def jfk(sites: Directory) -> Site:
    """A site with a destination, which beat has just looked at."""
    link(sites)
    with sites["jfk"].transaction() as connection:
        runs.note_look(connection)
    return sites["jfk"]


def test_all_is_well(jfk: Site, told: Told) -> None:
    schedules.schedule(jfk, "push", "hq", every="1h")
    assert told.subjects() == []


def test_a_refresh_that_fails(sites: Directory, told: Told) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.seats (id int PRIMARY KEY, free int)")
    masters.create_snapshot_log(hq, "seats")
    snapshots.create(jfk, "seats", master="hq")
    assert told.subjects() == []
    run(hq, "DROP TABLE public.seats")
    with pytest.raises(SnaptideError) as failed:
        snapshots.refresh(jfk, "seats", method="c")
    assert told.subjects() == ["refresh group seats"]
    assert failed.value.code in told.call("status", "jfk").stdout


def test_a_push_that_fails_before_a_refresh(sites: Directory, told: Told) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.seats (id int PRIMARY KEY, free int)")
    masters.create_snapshot_log(hq, "seats")
    snapshots.create(jfk, "seats", master="hq", updatable=True)
    snapshots.refresh(jfk, "seats")
    set_disabled(jfk, "hq", disabled=True)
    with pytest.raises(SnaptideError):
        snapshots.refresh(jfk, "seats")
    assert told.subjects() == ["destination hq", "refresh group seats"]


def test_a_site_that_has_stopped_to_push(jfk: Site, told: Told) -> None:
    run(jfk, "UPDATE snaptide.destination SET last_error = 'no route to hq'")
    assert told.subjects() == ["destination hq"]
    run(jfk, "UPDATE snaptide.destination SET last_error = NULL")
    set_disabled(jfk, "hq", disabled=True)
    assert told.subjects() == ["destination hq"]


def test_a_schedule_that_beat_does_not_take(jfk: Site, told: Told) -> None:
    schedules.schedule(jfk, "push", "hq", every="1h")
    run(jfk, f"UPDATE snaptide.schedule SET next_at = now() - {HOUR}")
    assert told.subjects() == ["schedule push hq"]
    schedules.enable_schedule(jfk, "push", "hq", enabled=False)
    assert told.subjects() == []


def test_a_schedule_that_no_worker_answers(jfk: Site, told: Told) -> None:
    schedules.schedule(jfk, "push", every="1h")
    with jfk.transaction() as connection:
        assert schedules.claim(connection)
    assert told.subjects() == []
    run(jfk, f"UPDATE snaptide.schedule SET asked_at = now() - {HOUR}")
    # Beat asks again; that does not make the worker less late.
    run(jfk, "UPDATE snaptide.schedule SET next_at = now()")
    with jfk.transaction() as connection:
        assert schedules.claim(connection)
    assert told.subjects() == ["schedule push *"]
    with activity.report(jfk, "push", "hq"):
        assert told.subjects() == []
    with runs.outcome(jfk, "push", schedules.EVERYTHING):
        deferred.push_all(jfk)
    assert told.subjects() == []


def test_a_run_that_failed(jfk: Site, told: Told) -> None:
    schedules.schedule(jfk, "push", "hq", every="1h")
    with pytest.raises(ZeroDivisionError), runs.outcome(jfk, "push", "hq"):
        1 // 0  # noqa: B018
    assert told.subjects() == ["schedule push hq"]


def test_beat_is_away(jfk: Site, told: Told) -> None:
    schedules.schedule(jfk, "purge", every="0 3 * * 0")
    run(jfk, f"UPDATE snaptide.beat SET looked_at = now() - {HOUR}")
    assert told.subjects() == ["beat"]
    run(jfk, "DELETE FROM snaptide.beat")
    assert told.subjects() == ["beat"]
    schedules.unschedule(jfk, "purge")
    assert told.subjects() == []


def test_commits_wait_and_no_worker_listens(jfk: Site, told: Told) -> None:
    run(jfk, "INSERT INTO public.orders (id) VALUES (1)")
    # Those of the last minute may be on their way.
    assert told.subjects() == []
    run(jfk, f"UPDATE snaptide.deferred_transaction SET start_time = now() - {HOUR}")
    assert told.subjects() == ["destination hq"]
    # Where beat never ran, people push.
    run(jfk, "DELETE FROM snaptide.beat")
    assert told.subjects() == []
