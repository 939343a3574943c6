"""Runs the steps of the demo in order, each with its time limit."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from snaptide.demo.errors import DemoFailed
from snaptide.demo.steps import (
    conflicts,
    crash,
    define,
    fast_refresh,
    final_check,
    first_refresh,
    load,
    offline,
    scheduled_push,
)
from snaptide.demo.world import World


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its title, its function, and the seconds that it may take."""

    title: str
    tell: Callable[[World], None]
    limit: int


STEPS = (
    Step("Four sites, and all flights from New York in 2013", load.tell, 90),
    Step("Snapshot logs, resolution rules, snapshots", define.tell, 60),
    Step("Complete refresh: the airports receive their rows", first_refresh.tell, 120),
    Step("Offline: all sites edit, some of them the same rows", offline.tell, 30),
    Step("Scheduled push: beat asks, a worker delivers", scheduled_push.tell, 90),
    Step("Conflicts: settled by rules, and by hand", conflicts.tell, 30),
    Step("Fast refresh: the decisions come back to the sites", fast_refresh.tell, 60),
    Step("Crash: workers are killed in mid-push", crash.tell, 120),
    Step("Final check: every snapshot against its master", final_check.tell, 60),
)


class TimeIsUp(BaseException):
    """A step took longer than it may; no `except Exception` in it catches this."""


def tell(world: World, interrupted: Callable[[], bool]) -> list[tuple[str, float]]:
    """Run all steps.

    Parameters:
        interrupted: says, after each step, whether the user interrupted the demo.

    Returns:
        The title of each step, and its seconds.

    Raises:
        DemoFailed: a step failed; the error's cause says why.
    """
    taken = []
    for number, step in enumerate(STEPS, 1):
        title = f"{number}. {step.title}"
        world.screen.headline(title)
        started = time.monotonic()
        try:
            with limited(step.limit):
                step.tell(world)
        except (Exception, TimeIsUp) as error:
            raise DemoFailed(
                f"Step {title} failed.", hint=f"Logs are kept in {world.folder}."
            ) from error
        if interrupted():
            raise KeyboardInterrupt
        taken.append((title, time.monotonic() - started))
        world.screen.seconds(taken[-1][1])
    return taken


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp in the block when its time is over, even while it waits."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise TimeIsUp(f"It took longer than {seconds:g} seconds.")

    before = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
