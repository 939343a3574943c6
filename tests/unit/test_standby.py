"""What a worker compares to warm Spark goes on only while no task runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from snapshots.differences import warming
from snapshots.spark.errors import SparkNotStarted
from snaptide import standby
from snaptide.standby import Warming

#: Comparisons in a test.
STEPS = 5


class Steps:
    """Takes the place of the comparisons; no test here needs Spark."""

    def __init__(self) -> None:
        self.done = 0
        self.first = threading.Event()

    def __call__(self) -> Iterator[None]:
        for _ in range(STEPS):
            self.done += 1
            self.first.set()
            yield


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    made = Steps()
    monkeypatch.setattr(warming, "comparisons", made)
    monkeypatch.setattr(warming, "give_up", lambda: None)
    monkeypatch.setattr(warming, "keep_classes", lambda stopping: False)
    return made


def started(warms: Warming) -> threading.Thread:
    thread = threading.Thread(target=warms.warm)
    thread.start()
    return thread


def test_comparisons_wait_for_tasks(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "GIVES_WAY", 60)
    warms = Warming([])
    warms.note_begin("a")
    warms.note_begin("b")
    thread = started(warms)
    assert steps.first.wait(10)
    warms.note_end("a")
    thread.join(0.5)
    assert steps.done == 1
    warms.note_end("b")
    thread.join(10)
    assert steps.done == STEPS


def test_they_wait_no_longer_than_a_moment_for_each(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "GIVES_WAY", 0.05)
    warms = Warming([])
    warms.note_begin("a task of hours")
    started(warms).join(10)
    assert steps.done == STEPS


def test_they_end_with_the_worker(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "GIVES_WAY", 60)
    warms = Warming([])
    warms.note_begin("a")
    thread = started(warms)
    assert steps.first.wait(10)
    warms.give_up()
    thread.join(10)
    assert (thread.is_alive(), steps.done) == (False, 1)


@pytest.mark.parametrize("ends", [False, True])
def test_spark_that_does_not_start_is_said_unless_the_worker_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ends: bool
) -> None:
    def fail() -> Iterator[None]:
        raise SparkNotStarted("Spark at local[*] could not be started: no")
        yield

    monkeypatch.setattr(warming, "comparisons", fail)
    warms = Warming([])
    if ends:
        warms.stopping.set()
    with caplog.at_level(logging.INFO):
        warms.warm()
    said = [] if ends else ["Spark could not be warmed: SNP-282"]
    assert [one.message[: len(said[0])] for one in caplog.records] == said
