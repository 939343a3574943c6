"""Schedules in a site's catalog: what may stand there, and who takes what is due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery

import deferred.tasks
import snapshots.tasks
from deferred import runs, schedules
from deferred.errors import BadOption
from deferred.interval import BadInterval
from deferred.schedules import BadSchedule, NoSuchSchedule
from sites import Directory, Site, configured
from sites.configured import Configuration
from sites.errors import SiteUnreachable
from snaptide import beat, scheduled
from tests.fix_commands import Snaptide
from tests.linked_table import run, scalar


@pytest.fixture
def jfk(jfk: Site) -> Site:
    """A site with destinations hq, a and b, and a refresh group g."""
    run(
        jfk,
        "INSERT INTO snaptide.destination (name, window_end)"
        " SELECT n, pg_current_snapshot() FROM unnest('{hq,a,b}'::text[]) n",
        "INSERT INTO snaptide.refresh_group (name, master, master_id)"
        " VALUES ('g', 'hq', gen_random_uuid())",
    )
    return jfk


def test_a_schedule_by_interval_is_due_at_once(jfk: Site) -> None:
    made = schedules.schedule(jfk, "push", "hq", every="10m", transaction_count=5)
    assert made.options == {"transaction_count": 5}
    with jfk.transaction() as connection:
        assert [s.subject for s in schedules.claim(connection)] == ["hq"]
    with jfk.transaction() as connection:
        assert schedules.claim(connection) == []
    (after,) = schedules.list_schedules(jfk)
    assert after.last_at is not None
    assert after.next_at > after.last_at


def test_a_schedule_by_cron_waits_for_its_time(jfk: Site) -> None:
    made = schedules.schedule(jfk, "purge", every="0 3 * * 0")
    assert made.next_at > scalar(jfk, "SELECT now()")
    assert (made.next_at.hour, made.next_at.isoweekday()) == (3, 7)
    with jfk.transaction() as connection:
        assert schedules.claim(connection) == []


def test_a_second_schedule_replaces_the_first(jfk: Site) -> None:
    schedules.schedule(jfk, "refresh", "g", every="1h", method="c")
    schedules.schedule(jfk, "refresh", "g", every="2h")
    (only,) = schedules.list_schedules(jfk)
    assert (only.interval, only.options) == ("2h", {})


def test_two_beats_do_not_claim_the_same(jfk: Site) -> None:
    schedules.schedule(jfk, "push", "hq", every="10m")
    with jfk.transaction() as first, jfk.transaction() as second:
        assert len(schedules.claim(first)) == 1
        # Passed by at once, not waited for.
        assert schedules.claim(second) == []
    with jfk.transaction() as third:
        assert schedules.claim(third) == []


def test_a_claim_that_is_rolled_back_stays_due(jfk: Site) -> None:
    schedules.schedule(jfk, "push", "hq", every="10m")
    with jfk.session() as connection:
        assert schedules.claim(connection)
        connection.rollback()
    with jfk.transaction() as connection:
        assert schedules.claim(connection)


def test_a_paused_schedule_is_not_due(jfk: Site) -> None:
    schedules.schedule(jfk, "push", "hq", every="10m")
    schedules.enable_schedule(jfk, "push", "hq", enabled=False)
    with jfk.transaction() as connection:
        assert schedules.claim(connection) == []
    schedules.enable_schedule(jfk, "push", "hq")
    run(jfk, "UPDATE snaptide.schedule SET next_at = now()")
    with jfk.transaction() as connection:
        assert schedules.claim(connection)


def test_what_was_missed_in_a_pause_is_not_made_up_for(jfk: Site) -> None:
    schedules.schedule(jfk, "push", "hq", every="1h")
    schedules.enable_schedule(jfk, "push", "hq", enabled=False)
    run(jfk, "UPDATE snaptide.schedule SET next_at = now() - interval '3 days'")
    enabled = schedules.enable_schedule(jfk, "push", "hq")
    now: datetime = scalar(jfk, "SELECT now()")
    assert enabled.next_at > now


@pytest.mark.parametrize(
    ("kind", "subject", "options"),
    [
        ("dance", "*", {}),
        ("refresh", "*", {}),
        ("refresh", "nothing", {}),
        ("push", "lga", {}),
        ("purge", "hq", {}),
        ("push", "hq", {"methods": "c"}),
        ("purge", "*", {"method": "c"}),
        ("push", "hq", {"transaction_count": "many"}),
        ("push", "hq", {"transaction_count": True}),
        ("push", "hq", {"transaction_count": -1}),
        ("push", "hq", {"execution_seconds": "nan"}),
        ("push", "hq", {"stop_on_error": "later"}),
        ("push", "hq", {"error_action": "pray"}),
        ("push", "hq", {"one_by_one": "orders"}),
        ("push", "hq", {"one_by_one": [1]}),
        # A text is true in Python: rows would have gone by the thousand.
        ("refresh", "g", {"allow_mass_delete": "never"}),
        ("refresh", "g", {"push_deferred_rpc": 2}),
        ("refresh", "g", {"method": False}),
        ("purge", "*", {"record_days": -1}),
        ("purge", "*", {"record_days": "all"}),
    ],
)
def test_what_could_never_run_is_refused(
    jfk: Site, kind: str, subject: str, options: dict[str, Any]
) -> None:
    with pytest.raises(BadOption if options else BadSchedule):
        schedules.schedule(jfk, kind, subject, every="1h", **options)


def test_options_of_every_kind_may_be_scheduled(jfk: Site) -> None:
    given = {
        "stop_on_error": False,
        "transaction_count": 5,
        "execution_seconds": 1.5,
        "delay_seconds": 1,
        "error_action": "skip_row",
        "one_by_one": ["orders"],
    }
    assert schedules.schedule(jfk, "push", "hq", every="1h", **given).options == given
    said = schedules.schedule(jfk, "push", "hq", every="1h", stop_on_error="no")
    assert said.options == {"stop_on_error": False}
    purge = schedules.schedule(jfk, "purge", every="1d", record_days=0.5)
    assert purge.options == {"record_days": 0.5}


@pytest.mark.parametrize(
    ("task", "subject", "options"),
    [
        (deferred.tasks.push, "hq", {"parallelism": 17}),
        (deferred.tasks.push, "*", {"transaction_count": "many"}),
        (deferred.tasks.purge, "*", {"record_days": "all"}),
        (snapshots.tasks.refresh, "g", {"allow_mass_delete": "never"}),
    ],
)
def test_a_task_that_anyone_sent_is_refused_and_its_schedule_says_why(
    jfk: Site,
    monkeypatch: pytest.MonkeyPatch,
    task: Any,
    subject: str,
    options: dict[str, Any],
) -> None:
    kind = task.name.rpartition(".")[2]
    schedules.schedule(jfk, kind, subject, every="1h")
    with Directory({"jfk": jfk.url}) as directory:
        monkeypatch.setattr(configured, "_current", Configuration(directory=directory))
        with pytest.raises(BadOption):
            task("jfk", subject, **options)
    [noted] = schedules.list_schedules(jfk)
    assert str(noted.last_error).startswith(f"SNP-343 {next(iter(options))} must be ")


def test_an_interval_that_means_nothing_is_refused(jfk: Site) -> None:
    with pytest.raises(BadInterval, match="'soon' is neither"):
        schedules.schedule(jfk, "push", every="soon")


def test_what_is_not_there(jfk: Site) -> None:
    with pytest.raises(NoSuchSchedule):
        schedules.unschedule(jfk, "push", "hq")
    with pytest.raises(NoSuchSchedule):
        schedules.enable_schedule(jfk, "push", "hq")


def test_nonsense_written_by_hand_is_said_and_left_alone(jfk: Site) -> None:
    run(
        jfk,
        "INSERT INTO snaptide.schedule (kind, subject, interval) VALUES"
        " ('push', 'a', 'soon'), ('push', 'b', '1h')",
    )
    with jfk.transaction() as connection:
        assert [s.subject for s in schedules.claim(connection)] == ["b"]
    bad = next(s for s in schedules.list_schedules(jfk) if s.subject == "a")
    assert bad.last_error is not None
    assert "soon" in bad.last_error
    with jfk.transaction() as connection:
        assert schedules.claim(connection) == []


def test_the_outcome_is_noted(jfk: Site) -> None:
    schedules.schedule(jfk, "push", "hq", every="10m")
    with (
        pytest.raises(SiteUnreachable),
        runs.outcome(jfk, "push", "hq"),
    ):
        raise SiteUnreachable("hq is away.")
    assert schedules.list_schedules(jfk)[0].last_error == "SNP-002 hq is away."
    with runs.outcome(jfk, "push", "hq"):
        pass
    assert schedules.list_schedules(jfk)[0].last_error is None


def test_a_look_that_fails_for_whatever_reason_says_so(
    jfk: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beat looks again and again, and nobody waits for what comes of it."""
    monkeypatch.setattr(schedules, "claim", lambda _: 1 // 0)
    look = beat.Look(Celery(), jfk)
    with caplog.at_level(logging.WARNING):
        look.look()
    assert "Schedules of jfk: SNP-499 ZeroDivisionError: integer" in caplog.text


def test_a_schedule_by_a_calendar_waits_for_its_day(jfk: Site) -> None:
    made = schedules.schedule(jfk, "purge", every="day 31 at 03:00")
    first, second, *_ = schedules.next_runs(jfk, "purge")
    assert made.next_at == first < second
    assert (first.hour, (first + timedelta(days=1)).day) == (3, 1)
    with jfk.transaction() as connection:
        assert schedules.claim(connection) == []
    again = schedules.schedule(jfk, "purge", every="at 04:00")
    assert again.next_at - scalar(jfk, "SELECT now()") <= timedelta(days=1)


def test_a_run_by_a_calendar_is_due_at_its_next_day_afterwards(jfk: Site) -> None:
    schedules.schedule(jfk, "purge", every="month feb day 30 at 03:00")
    run(jfk, "UPDATE snaptide.schedule SET next_at = now()")
    with jfk.transaction() as connection:
        assert len(schedules.claim(connection)) == 1
    with runs.outcome(jfk, "purge", "*"):
        pass
    [due] = schedules.list_schedules(jfk)
    assert (due.next_at.month, (due.next_at + timedelta(days=1)).month) == (2, 3)


def test_a_run_by_a_calendar_that_failed_is_due_again_soon(jfk: Site) -> None:
    """Else nothing would be purged for a year, because the site was away that night."""
    schedules.schedule(jfk, "purge", every="month feb day 30 at 03:00")
    schedules.schedule(jfk, "push", "hq", every="0 3 30 1 *")
    run(jfk, "UPDATE snaptide.schedule SET next_at = next_at + interval '1 year'")
    for kind, subject in (("purge", "*"), ("push", "hq")):
        with pytest.raises(SiteUnreachable), runs.outcome(jfk, kind, subject):
            raise SiteUnreachable
    purge, push = schedules.list_schedules(jfk)
    now = scalar(jfk, "SELECT now()")
    assert purge.next_at - now <= runs.AGAIN < push.next_at - now


def test_the_calendar_of_a_command(jfk: Site, snaptide: Snaptide) -> None:
    purge = ("schedule", "set", "jfk", "purge")
    [made] = snaptide.report(*purge, "--month", "feb", "--day", "29", "--at", "03:00")
    assert made["interval"] == "month feb day 29 at 03:00"
    said = snaptide.said(*purge, "--day", "31", "--weekday", "fri", "--at", "03:00")
    assert "The weekday does not count" in said
    assert said.count(":00:00") == 6
    assert len(snaptide.report("schedule", "next", "jfk", "purge")) == 5
    for wrong, why in (
        (["--day", "31"], "Say when: --at HH:MM"),
        ([], "Say when: --every, or --at"),
        (["--every", "1d", "--at", "03:00"], "not both"),
        (["--at", "03:00", "--weekday", "7"], "'7' is no weekday"),
    ):
        assert why in snaptide.said(*purge, *wrong, code=2)


class Looks:
    """Has looks done at once, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, look: Callable[[], None]) -> Future[None]:
        self.count += 1
        look()
        done: Future[None] = Future()
        done.set_result(None)
        return done


@pytest.mark.parametrize(
    ("turn", "due", "seen"), [(1.0, 3600.0, 2), (20.0, 3600.0, 1), (20.0, 0.2, 2)]
)
def test_of_many_sites_each_is_looked_at_when_a_run_is_due(
    jfk: Site, monkeypatch: pytest.MonkeyPatch, turn: float, due: int, seen: int
) -> None:
    monkeypatch.setattr(beat.Look, "_recover", lambda _: None)
    monkeypatch.setattr(scheduled, "send", lambda *_args: "id")
    schedules.schedule(jfk, "purge", every="1h")
    looks: Any = Looks()
    monkeypatch.setattr(schedules, "next_due", lambda _: due)
    look = beat.Look(Celery(), jfk, turn)
    look.begin(looks)
    look.begin(looks)
    assert looks.count == seen


def test_beat_looks_so_often_that_few_looks_come_in_a_second() -> None:
    assert [beat.pause_for(sites) for sites in (1, 50, 1000)] == [1.0, 1.0, 20.0]


def test_a_paused_schedule_is_never_due(jfk: Site) -> None:
    schedules.schedule(jfk, "purge", every="1h")
    with jfk.transaction() as connection:
        due = schedules.next_due(connection)
        assert due is not None
        assert due <= 0
    schedules.enable_schedule(jfk, "purge", enabled=False)
    with jfk.transaction() as connection:
        assert schedules.next_due(connection) is None
