"""A commit is pushed, schedules run, and both outlive the loss of Redis or a worker."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import pytest
from redis import Redis

from deferred import schedules
from deferred.pushing.push import SMALL
from deferred.queues.backlog import set_disabled
from sites import Directory
from snaptide import backoff_logger, migrate
from snaptide.application import PUSH
from snaptide.embedded import RedisServer
from snaptide.status import status_of
from tests.fix_db import MakeDatabase
from tests.fix_worker import (
    NOT_LISTENING,
    Service,
    Services,
    WriteSettings,
    eventually,
    waiting_tasks,
)
from tests.fix_worlds import prepared_once
from tests.let_go import wait_until_let_go
from tests.linked_table import as_refresh, queued, run, scalar
from tests.seats import create_seats

#: One transaction with more calls than a worker pushes without a task.
MANY = f"SELECT g, 1 FROM generate_series(100, {100 + SMALL}) g"


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """An updatable snapshot `seats` at jfk, loaded."""
    create_seats(sites)


@pytest.fixture
def seats(sites: Directory) -> Directory:
    return sites


def free_at_hq(sites: Directory, number: int) -> int:
    return int(
        scalar(sites["hq"], f"SELECT free FROM public.seats WHERE id = {number}")
    )


def take(sites: Directory, number: int) -> None:
    run(sites["jfk"], f"UPDATE public.seats SET free = 7 WHERE id = {number}")


def _is_taken(sites: Directory, number: int) -> bool:
    return free_at_hq(sites, number) == 7


def test_a_commit_is_pushed_without_a_schedule(
    seats: Directory, services: Services
) -> None:
    services.worker()
    for number in (1, 2, 3):
        take(seats, number)
        eventually(partial(_is_taken, seats, number))
    # Two commits at once: the second is not announced, and goes all the same.
    take(seats, 4)
    take(seats, 5)
    eventually(lambda: free_at_hq(seats, 5) == 7)


def test_what_was_committed_before_a_worker_is_pushed_when_it_comes(
    seats: Directory, services: Services
) -> None:
    take(seats, 1)
    services.worker()
    eventually(lambda: free_at_hq(seats, 1) == 7)


def test_listener_comes_back_after_its_line_is_cut(
    seats: Directory, services: Services
) -> None:
    services.worker()
    jfk = seats["jfk"]
    here = "FROM pg_stat_activity WHERE application_name = 'snaptide-listener'"
    mine = f"{here} AND datname = '{jfk.url.database}'"
    first = eventually(lambda: scalar(jfk, f"SELECT pid {mine}"))
    run(jfk, f"SELECT pg_terminate_backend(pid) {mine}")
    eventually(lambda: scalar(jfk, f"SELECT pid {mine}") not in (None, first))
    take(seats, 1)
    eventually(lambda: free_at_hq(seats, 1) == 7)


def test_schedules_take_effect_without_a_restart(
    seats: Directory, sites: Directory, broker: str, write_settings: WriteSettings
) -> None:
    services = Services(write_settings(sites, broker, NOT_LISTENING))
    try:
        services.worker()
        services.beat()
        jfk = seats["jfk"]
        take(seats, 1)
        schedules.schedule(jfk, "push", "hq", every="1s")
        eventually(lambda: free_at_hq(seats, 1) == 7)
        schedules.enable_schedule(jfk, "push", "hq", enabled=False)
        run(seats["hq"], "UPDATE public.seats SET free = 55 WHERE id = 9")
        schedules.schedule(jfk, "refresh", "seats", every="2s")
        mine = "SELECT free FROM public.seats WHERE id = 9"
        eventually(lambda: scalar(jfk, mine) == 55, seconds=120)
        schedules.schedule(jfk, "purge", every="1s")
        last = "SELECT last_at FROM snaptide.schedule WHERE kind = 'purge'"
        eventually(lambda: scalar(jfk, last))
        errors = "SELECT count(*) FROM snaptide.schedule WHERE last_error IS NOT NULL"
        # A refresh that took longer than its interval has kept the next one out.
        eventually(lambda: scalar(jfk, errors) == 0, what="no error")
    finally:
        services.stop()


def test_two_beats_run_a_schedule_once(
    seats: Directory, services: Services, broker: str
) -> None:
    services.beat()
    services.beat()
    schedules.schedule(seats["jfk"], "push", "hq", every="1h")
    with Redis.from_url(broker) as client:
        eventually(lambda: _pushes(client))
        last = "SELECT last_at IS NOT NULL FROM snaptide.schedule"
        eventually(lambda: scalar(seats["jfk"], last))
        # Nobody takes it out of the queue; a second one would stand beside it.
        assert len(_pushes(client)) == 1


def _pushes(client: Redis) -> list[dict[str, Any]]:
    """Pushes that stand in the site's queue, where recoveries stand too."""
    waiting = waiting_tasks(client, "jfk")
    return [one for one in waiting if one["headers"]["task"] == PUSH]


def test_a_broker_that_forgets_loses_nothing(
    seats: Directory, broker: str, write_settings: WriteSettings
) -> None:
    services = Services(write_settings(seats, broker, NOT_LISTENING))
    try:
        _forgets(seats, services, broker)
    finally:
        services.stop()


def _forgets(seats: Directory, services: Services, broker: str) -> None:
    services.beat()
    take(seats, 1)
    schedules.schedule(seats["jfk"], "push", "hq", every="1h")
    with Redis.from_url(broker) as client:
        eventually(lambda: _pushes(client))
        client.flushdb()
    schedules.schedule(seats["jfk"], "push", "hq", every="2s")
    services.worker()
    eventually(lambda: free_at_hq(seats, 1) == 7)


def test_a_broker_that_is_away_delays_long_queues_alone(
    seats: Directory, own_redis: RedisServer, write_settings: WriteSettings
) -> None:
    services = Services(write_settings(seats, own_redis.url()))
    try:
        worker = services.worker()
        own_redis.kill()
        take(seats, 1)
        eventually(lambda: free_at_hq(seats, 1) == 7)
        run(seats["jfk"], f"INSERT INTO public.seats {MANY}")
        worker.wait_for_line("Pushes of jfk: SNP-402 The broker does not answer.")
        own_redis.start()
        eventually(lambda: not queued(seats["jfk"]), seconds=150)
    finally:
        services.stop()


def test_a_killed_worker_leaves_the_push_to_the_next_one(
    seats: Directory, services: Services
) -> None:
    first = services.worker(SNAPTIDE_FAULT="push.after_apply:kill")
    take(seats, 1)
    first.wait_killed()
    wait_until_let_go(seats.values())
    assert free_at_hq(seats, 1) == 100
    services.worker()
    take(seats, 2)
    eventually(lambda: free_at_hq(seats, 2) == 7)
    assert free_at_hq(seats, 1) == 7


def test_an_unreachable_site_does_not_keep_the_others_waiting(
    seats: Directory, broker: str, write_settings: WriteSettings
) -> None:
    away = Directory(
        {**{s.name: s.url for s in seats.values()}, "away": _nowhere(seats)}
    )
    services = Services(write_settings(away, broker))
    try:
        services.worker()
        begun = time.monotonic()
        beat = services.beat()
        take(seats, 1)
        eventually(lambda: free_at_hq(seats, 1) == 7)
        beat.wait_for_line("Schedules of away: SNP-002 Site away")
        again = (time.monotonic() - begun) // backoff_logger.SAY_EVERY
        assert 1 <= beat.printed().count("Schedules of away") <= 1 + again
        assert str(away["away"].url.password) not in beat.printed()
    finally:
        services.stop()


def test_a_failed_refresh_is_one_error_in_the_log_and_on_the_schedule(
    seats: Directory, services: Services
) -> None:
    worker = services.worker()
    assert "(thread)" in worker.printed()
    services.beat()
    run(seats["hq"], "ALTER TABLE public.seats DROP COLUMN free")
    schedules.schedule(seats["jfk"], "refresh", "seats", every="1h")
    noted = "SELECT last_error FROM snaptide.schedule WHERE subject = 'seats'"
    code, _, _ = eventually(lambda: scalar(seats["jfk"], noted)).partition(" ")
    worker.wait_for_line(f"refresh jfk seats: {code}")
    (line,) = _lines(worker, "refresh jfk seats: ")
    assert "ERROR" in line
    assert " Hint: " in line
    assert "Traceback" not in worker.printed()


def test_a_failed_push_is_one_error_in_the_log_each_time(
    seats: Directory, services: Services
) -> None:
    worker = services.worker()
    services.beat()
    set_disabled(seats["jfk"], "hq", disabled=True)
    schedules.schedule(seats["jfk"], "push", "hq", every="1h")
    worker.wait_for_line("push jfk hq: SNP-")
    (line,) = _lines(worker, "push jfk hq: SNP-")
    assert "ERROR" in line
    assert " Hint: " in line


def test_what_went_well_is_a_line_with_counts(
    seats: Directory, services: Services
) -> None:
    worker = services.worker()
    services.beat()
    take(seats, 1)
    worker.wait_for_line("push jfk hq: 1 transactions, 1 calls, 0 resolved, 0 parked")
    run(seats["hq"], "UPDATE public.seats SET free = 55 WHERE id > 18")
    schedules.schedule(seats["jfk"], "refresh", "seats", every="1h")
    worker.wait_for_line("refresh jfk seats: 0 inserted, 2 updated, 0 deleted")
    assert "ERROR" not in worker.printed()


def test_lines_of_the_log_as_json(
    seats: Directory, broker: str, write_settings: WriteSettings
) -> None:
    settings = '[worker]\nlog_format = "json"\n'
    services = Services(write_settings(seats, broker, settings))
    try:
        worker = services.worker()
        beat = services.beat()
        take(seats, 1)
        pushed = _event(worker, "push")
        assert "1 transactions, 1 calls" in pushed.pop("message")
        assert (pushed.pop("seconds") > 0, pushed.pop("level")) == (True, "INFO")
        assert pushed.pop("time").endswith("+00:00")
        assert pushed == {
            "logger": "deferred.tasks",
            "event": "push",
            "site": "jfk",
            "subject": "hq",
            "transactions": 1,
            "calls": 1,
            "resolved": 0,
            "parked": 0,
        }
        run(seats["hq"], "UPDATE public.seats SET free = 55 WHERE id > 18")
        schedules.schedule(seats["jfk"], "refresh", "seats", every="1h")
        refreshed = _event(worker, "refresh")
        assert (refreshed["subject"], refreshed["updated"]) == ("seats", 2)
        base = 'public."snap$_seats"'
        as_refresh(seats["jfk"], f"UPDATE {base} SET free = 1 WHERE id > 18")
        schedules.schedule(seats["jfk"], "check", "seats", every="1h")
        checked = _event(worker, "check")
        assert "2 rows differ, 2 of them unexplained" in checked.pop("message")
        assert (checked.pop("seconds") > 0, checked.pop("level")) == (True, "INFO")
        assert checked.pop("time").endswith("+00:00")
        assert checked == {
            "logger": "snapshots.tasks",
            "event": "check",
            "site": "jfk",
            "subject": "seats",
            "differing": 2,
            "unexplained": 2,
            "unproven": 0,
        }
        set_disabled(seats["jfk"], "hq", disabled=True)
        schedules.schedule(seats["jfk"], "push", "hq", every="1h")
        failed = eventually(lambda: _failed(worker, "push"))[0]
        assert failed["site"] == "jfk"
        assert failed["code"].startswith("SNP-")
        assert failed["code"] in failed["message"]
        assert _json(beat)
    finally:
        services.stop()


def _event(service: Service, event: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = eventually(lambda: _events(service, event))
    return found[0]


def _events(service: Service, event: str) -> list[dict[str, Any]]:
    return [one for one in _json(service) if one.get("event") == event]


def _failed(service: Service, event: str) -> list[dict[str, Any]]:
    return [one for one in _events(service, event) if one["level"] == "ERROR"]


def _json(service: Service) -> list[dict[str, Any]]:
    """What a service has logged; it prints a banner before."""
    lines = service.printed().splitlines(keepends=True)
    begun = [line.startswith("{") for line in lines].index(True)
    return [json.loads(line) for line in lines[begun:] if line.endswith("\n")]


def test_a_scheduled_refresh_is_seen_while_it_runs(
    seats: Directory, services: Services
) -> None:
    worker = services.worker(SNAPTIDE_FAULT="refresh.after_window:stop")
    services.beat()
    run(seats["hq"], "UPDATE public.seats SET free = 55 WHERE id = 9")
    schedules.schedule(seats["jfk"], "refresh", "seats", every="1h")
    worker.wait_stopped()
    (work,) = status_of(seats["jfk"]).activities
    assert (work.kind, work.subject) == ("refresh", "seats")
    worker.go_on()
    worker.wait_for_line("refresh jfk seats: ")
    eventually(lambda: not status_of(seats["jfk"]).activities)


def test_beat_says_once_that_a_site_has_no_schema_and_when_it_has(
    seats: Directory,
    broker: str,
    write_settings: WriteSettings,
    make_database: MakeDatabase,
) -> None:
    new = Directory({**{s.name: s.url for s in seats.values()}, "new": make_database()})
    services = Services(write_settings(new, broker))
    try:
        services.worker()
        beat = services.beat()
        beat.wait_for_line("Schedules of new: SNP-003")
        # As long as all this takes, everybody looks again and again.
        take(seats, 1)
        eventually(lambda: free_at_hq(seats, 1) == 7)
        looked = "SELECT looked_at FROM snaptide.beat"
        first = eventually(lambda: scalar(seats["jfk"], looked))
        eventually(lambda: scalar(seats["jfk"], looked) > first)
        assert len(_lines(beat, " of new: ") + _lines(beat, " to new: ")) == 1
        migrate.upgrade(new["new"])
        beat.wait_for_line("Schedules of new: works again.")
        eventually(lambda: scalar(new["new"], looked))
    finally:
        services.stop()
        for site in new.values():
            site.close()


def _lines(service: Service, text: str) -> list[str]:
    return [line for line in service.printed().splitlines() if text in line]


def test_our_own_commands_run_worker_and_beat(
    seats: Directory, services: Services
) -> None:
    worker = services.snaptide("worker", "--site", "jfk", "--pool", "solo")
    worker.wait_for_line(" ready.")
    assert "snaptide.hq" not in worker.printed()
    services.snaptide("beat")
    take(seats, 1)
    eventually(lambda: free_at_hq(seats, 1) == 7)


def _nowhere(sites: Directory) -> Any:
    return sites["hq"].url.set(port=1)
