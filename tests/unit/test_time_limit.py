"""The time limit of custom routines."""

import threading
import time
from collections.abc import Iterator

import pytest

from masters.errors import InvalidParameter
from masters.resolution import (
    Conflict,
    Decision,
    Kind,
    Resolution,
    build,
    routines,
)
from sites import time_limit
from tests.unit.conflicts import update_conflict


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens what hangs when the test is over."""
    opened = threading.Event()
    yield opened
    opened.set()


@pytest.fixture
def hanging(gate: threading.Event) -> Iterator[str]:
    def hang(conflict: Conflict) -> Resolution:
        gate.wait(90)
        return Resolution(decision=Decision.SITE_WINS)

    routines.register("hanging", hang)
    yield "hanging"
    routines.REGISTRY.forget("hanging")


def test_routine_that_hangs_is_undecided(hanging: str, gate: threading.Event) -> None:
    method, patient = (
        build("custom", Kind.UPDATE, {"routine": hanging, "seconds": limit}, ["price"])
        for limit in (0.05, 90)
    )
    reasons = [method(update_conflict()).reason for _ in range(time_limit.HANGING + 1)]
    assert reasons[:-1] == ["routine hanging did not answer within 0.05 seconds"] * 3
    assert reasons[-1] == "routine hanging still hangs in 3 earlier calls"
    gate.set()
    until = time.monotonic() + 90
    while time_limit._hanging[hanging] and time.monotonic() < until:
        threading.Event().wait(0.01)
    assert patient(update_conflict()).decision is Decision.SITE_WINS


def test_exit_of_a_routine_is_not_the_workers() -> None:
    def leave(conflict: Conflict) -> Resolution:
        raise SystemExit(1)

    routines.register("leave", leave)
    answer = build("custom", Kind.UPDATE, {"routine": "leave"}, ["price"])(
        update_conflict()
    )
    routines.REGISTRY.forget("leave")
    assert answer.decision is Decision.UNDECIDED
    assert "SystemExit" in answer.reason or "RuntimeError" in answer.reason


@pytest.mark.parametrize("seconds", [0, -1, "5", True, float("inf"), float("nan")])
def test_limit_is_a_positive_number(hanging: str, seconds: object) -> None:
    with pytest.raises(InvalidParameter):
        build(
            "custom", Kind.UPDATE, {"routine": hanging, "seconds": seconds}, ["price"]
        )


def test_thread_of_a_routine_ends_with_the_one_that_asked() -> None:
    """A stream of a push asks in a thread of its own, which ends with the push."""
    asked: list[threading.Thread] = []

    def ask() -> None:
        time_limit.call(
            "who", lambda _: asked.append(threading.current_thread()), None, 9
        )

    stream = threading.Thread(target=ask)
    stream.start()
    stream.join()
    asked[0].join(90)
    assert not asked[0].is_alive()


def test_thread_of_a_routine_that_answers_late_ends(gate: threading.Event) -> None:
    asked: list[threading.Thread] = []

    def hang(_: None) -> None:
        asked.append(threading.current_thread())
        gate.wait(90)

    with pytest.raises(time_limit.TooSlow):
        time_limit.call("late", hang, None, 0.05)
    gate.set()
    asked[0].join(90)
    assert not asked[0].is_alive()
