"""What a lost coordinator leaves in doubt: workers finish it, or a person does."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

import synchronous
from sites import Directory
from snaptide import beat
from snaptide.application import celery_app
from snaptide.cli import app
from snaptide.settings import Settings
from tests.coordinated import coordinate, left_over, prepared, quantities
from tests.fix_worker import Services, WriteSettings, eventually, waiting_tasks
from tests.linked_table import link, run_everywhere

Ask = Callable[..., Any]


@pytest.fixture
def linked(sites: Directory) -> Directory:
    """Two rows at both sites, propagated synchronously."""
    link(sites, "orders", "id int PRIMARY KEY, qty int", synchronous=True)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 10), (2, 10)")
    return sites


@pytest.fixture
def indoubt(linked: Directory, write_settings: WriteSettings) -> Ask:
    """Run a command of `snaptide indoubt`, which has to end with a number."""
    config = write_settings(linked)

    def ask(*arguments: str, ends: int = 0) -> Any:
        command = ["--config", str(config), "indoubt", *arguments, "--json"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == ends, result.output
        return json.loads(result.stdout or "null")

    return ask


def abandon(sites: Directory, point: str) -> str:
    """Kill a coordinator at a fault point; what it leaves prepared."""
    assert coordinate(sites, f"synchronous.{point}:kill") == -signal.SIGKILL
    (gid,) = prepared(sites["hq"])
    return gid


def is_settled(sites: Directory) -> bool:
    here, there = map(quantities, sites.values())
    return here == there and left_over(sites) == {}


def test_a_worker_that_starts_finishes_what_is_in_doubt(
    linked: Directory, services: Services
) -> None:
    abandon(linked, "after_decision")

    services.worker()

    eventually(lambda: is_settled(linked), what="the end of the transaction")
    assert quantities(linked["hq"]) == {1: 9, 2: 11}


def test_beat_has_it_finished_while_a_worker_runs(
    linked: Directory, services: Services
) -> None:
    worker = services.worker()
    # What it does as it starts is over: the next recovery is beat's.
    for _ in linked:
        worker.wait_for_line("groups.tasks.recover")
    eventually(lambda: worker.printed().count(" succeeded in ") >= len(linked))
    abandon(linked, "after_prepare")

    services.beat()

    eventually(lambda: is_settled(linked), what="the end of the transaction")
    assert quantities(linked["jfk"]) == {1: 10, 2: 10}


def test_beat_asks_for_it_every_minute_where_something_is_left(
    linked: Directory,
    broker: str,
    write_settings: WriteSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(beat, "time", SimpleNamespace(monotonic=lambda: now[0]))
    celery = celery_app(Settings.load(write_settings(linked, broker)))
    looks = [beat.Look(celery, site) for site in linked.values()]

    def asked(seconds: int) -> dict[str, int]:
        now[0] += seconds
        for look in looks:
            look.look()
        with Redis.from_url(broker) as client:
            return {name: len(waiting_tasks(client, name)) for name in linked}

    assert asked(0) == {"hq": 0, "jfk": 0}
    # The master has it prepared, and the site has not decided.
    abandon(linked, "after_prepare")
    for seconds, times in ((59, 0), (1, 1), (30, 1), (30, 2)):
        assert asked(seconds) == {"hq": times, "jfk": 0}
    assert synchronous.recover(linked["hq"]).rolled_back == 1
    assert asked(60) == {"hq": 2, "jfk": 0}
    celery.close()


def test_a_person_lists_it_and_has_it_recovered(
    linked: Directory, indoubt: Ask
) -> None:
    gid = abandon(linked, "after_decision")

    (waiting,) = indoubt("list", "hq", ends=3)
    assert (waiting["gid"], waiting["state"]) == (gid, "prepared")
    assert waiting["decision"] == "commit"
    (decided,) = indoubt("list", "jfk", ends=3)
    assert decided["state"] == "decided"
    assert gid.startswith(decided["gid"])

    assert indoubt("recover", "hq")["committed"] == 1
    assert indoubt("recover", "jfk")["settled"] == 1

    assert indoubt("list", "hq") == indoubt("list", "jfk") == []
    assert is_settled(linked)


def test_a_person_decides_and_is_held_to_it(linked: Directory, indoubt: Ask) -> None:
    gid = abandon(linked, "after_decision")
    indoubt("rollback", "hq", gid, ends=1)
    assert prepared(linked["hq"]) == [gid]

    assert indoubt("rollback", "hq", gid, "--force")["done"] == "rolled back"

    assert quantities(linked["hq"]) == {1: 10, 2: 10}
    assert indoubt("recover", "hq")["committed"] == 0
    (judged,) = indoubt("list", "hq", ends=3)
    assert judged["state"] == "heuristic"
    assert judged["heuristic"].startswith("rollback by ")
    assert judged["decision"] == "commit"
    indoubt("forget", "hq", gid)
    indoubt("forget", "hq", gid, ends=1)
    assert indoubt("list", "hq") == []


def test_a_person_commits_what_the_site_has_decided(
    linked: Directory, indoubt: Ask
) -> None:
    gid = abandon(linked, "after_decision")

    assert indoubt("commit", "hq", gid)["done"] == "committed"

    assert is_settled(linked)
    assert quantities(linked["hq"]) == {1: 9, 2: 11}


def test_nobody_commits_what_the_site_undid(linked: Directory, indoubt: Ask) -> None:
    gid = abandon(linked, "after_prepare")

    indoubt("commit", "hq", gid, ends=1)
    indoubt("rollback", "hq", gid)

    assert is_settled(linked)
    assert quantities(linked["hq"]) == {1: 10, 2: 10}
