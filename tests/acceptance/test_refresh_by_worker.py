"""A refresh at the command line is done by a worker that runs, as if done there."""

from __future__ import annotations

import json
import re

import psutil
from redis import Redis

from sites import Directory
from snaptide import presence
from tests.fix_worker import Service, Services, eventually
from tests.fix_worlds import prepared_once
from tests.linked_table import run, scalar
from tests.seats import create_seats

#: As a worker writes it.
DONE = "refresh jfk seats: 0 inserted, 1 updated, 0 deleted"


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """A snapshot `seats` at jfk, loaded, with a change at its master."""
    create_seats(sites)
    change(sites, 1)


def change(sites: Directory, free: int) -> None:
    run(sites["hq"], f"UPDATE public.seats SET free = {free} WHERE id = 9")


def free_at_jfk(sites: Directory) -> int:
    return int(scalar(sites["jfk"], "SELECT free FROM public.seats WHERE id = 9"))


def served(worker: Service, broker: str, site: str = "jfk") -> Service:
    """A worker that says that it is there."""
    eventually(lambda: presence.is_served(broker, site))
    return worker


def said(command: Service, *, code: int = 0) -> str:
    """What a command has printed, without times, when it has ended with a code."""
    assert command.code() == code, command.printed()
    return re.sub(r"\d+\.\d+ s", "some s", command.printed())


def started_spark(service: Service) -> bool:
    """Whether a process has a Java runtime."""
    below = psutil.Process(service.pid).children(recursive=True)
    return any("java" in one.name() for one in below)


def test_it_prints_and_ends_the_same_by_a_worker_as_without(
    sites: Directory, services: Services, broker: str
) -> None:
    here = said(services.command("refresh", "jfk", "seats"))
    wrong = said(services.command("refresh", "jfk", "nothing"), code=1)
    wrong_as_json = said(
        services.command("refresh", "jfk", "nothing", "--json"), code=1
    )
    change(sites, 2)
    # What a user changes is pushed by the refresh, and not before it.
    worker = served(services.worker(SNAPTIDE_WORKER__LISTEN="false"), broker)
    assert said(services.command("refresh", "jfk", "seats")) == here
    assert free_at_jfk(sites) == 2
    worker.wait_for_line(DONE)
    change(sites, 3)
    report = json.loads(said(services.command("refresh", "jfk", "seats", "--json")))
    assert report["snapshots"][0]["updated"] == 1
    assert worker.printed().count(DONE) == 2
    assert said(services.command("refresh", "jfk", "nothing"), code=1) == wrong
    again = services.command("refresh", "jfk", "nothing", "--json")
    assert said(again, code=1) == wrong_as_json
    # Options reach the worker, and what a push before it parks is told.
    run(sites["jfk"], "UPDATE public.seats SET free = 7 WHERE id = 8")
    run(sites["hq"], "UPDATE public.seats SET free = 8 WHERE id = 8")
    options = ("--method", "c", "--json")
    attention = services.command("refresh", "jfk", "seats", *options)
    parked = json.loads(said(attention, code=3))
    assert (parked["snapshots"][0]["method"], parked["pushed"]["errors"]) == (
        "complete",
        1,
    )


def test_a_worker_that_dies_leaves_the_refresh_to_the_command(
    sites: Directory, services: Services, broker: str
) -> None:
    worker = services.worker(SNAPTIDE_FAULT="refresh.after_window:kill")
    served(worker, broker)
    command = services.command("refresh", "jfk", "seats")
    worker.wait_killed()
    command.wait_for_line("The worker is gone: the refresh runs here.", seconds=30)
    assert "seats shows its master" in said(command)
    assert free_at_jfk(sites) == 1


def test_ctrl_c_ends_the_waiting_and_not_the_refresh(
    sites: Directory, services: Services, broker: str
) -> None:
    worker = services.worker(SNAPTIDE_FAULT="refresh.after_window:stop")
    served(worker, broker)
    command = services.command("refresh", "jfk", "seats")
    worker.wait_stopped()
    command.interrupt()
    assert command.code() != 0
    assert "The refresh goes on in the worker: snaptide status jfk" in command.printed()
    worker.go_on()
    worker.wait_for_line(DONE)
    assert free_at_jfk(sites) == 1


def test_a_refresh_that_no_worker_begins_is_done_here_and_only_here(
    sites: Directory, services: Services, broker: str
) -> None:
    with Redis.from_url(broker) as redis:
        # As a worker leaves it that has just been killed.
        redis.set("snaptide.worker.jfk", 1)
    command = services.command("refresh", "jfk", "seats")
    command.wait_for_line("No worker has begun the refresh: it runs here.")
    assert "seats shows its master" in said(command)
    assert free_at_jfk(sites) == 1
    late = services.worker()
    late.wait_for_line("refresh jfk seats: it is not waited for any more.")


def test_a_worker_of_other_sites_is_not_asked(
    sites: Directory, services: Services, broker: str
) -> None:
    other = services.snaptide("worker", "--site", "hq")
    served(other, broker, "hq")
    assert not presence.is_served(broker, "jfk")
    other.ask_to_stop()
    other.wait()
    # It takes its mark along.
    assert not presence.is_served(broker, "hq")


def test_spark_starts_with_a_worker_and_ends_with_it(
    sites: Directory, services: Services, broker: str
) -> None:
    worker = services.worker(SNAPTIDE_WORKER__WARM="true")
    eventually(lambda: started_spark(worker))
    java = _java(worker)
    # Well before Spark is there: the start is given up.
    worker.ask_to_stop()
    assert worker.code(seconds=60) == 0
    eventually(lambda: not any(one.is_running() for one in java), seconds=30)
    assert "Spark could not" not in worker.printed()
    # Where nothing is refreshed, there is none.
    master = services.snaptide("worker", "--site", "hq", SNAPTIDE_WORKER__WARM="true")
    served(master, broker, "hq")
    eventually(lambda: "groups.tasks.recover" in master.printed())
    assert not started_spark(master)


def _java(service: Service) -> list[psutil.Process]:
    return psutil.Process(service.pid).children(recursive=True)


def test_a_warm_worker_refreshes(
    sites: Directory, services: Services, broker: str
) -> None:
    worker = services.worker(SNAPTIDE_WORKER__WARM="true")
    eventually(lambda: started_spark(worker))
    # One that comes before Spark is warm is not kept waiting for that.
    assert "seats shows its master" in said(services.command("refresh", "jfk", "seats"))
    worker.wait_for_line(DONE)
    worker.wait_for_line("Spark is warm", seconds=500)
