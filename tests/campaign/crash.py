"""One crash: something is asked for, killed on the way, and asked for again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

import psycopg
from pyspark import SparkContext
from sqlalchemy.exc import SQLAlchemyError

from sites import Directory, faults
from sites.errors import SnaptideError
from tests.campaign.deck import Card
from tests.campaign.kinds import ANY_TIME, Crash
from tests.campaign.verbs import Verb
from tests.campaign.world import World
from tests.forked import CONTEXT

#: Within so many seconds all has to go on by itself.
PATIENCE = 180
#: Seconds until something is tried again.
PAUSE = 0.05


def make(world: World, card: Card, verb: Verb, random: Random) -> Crash:
    """Make one crash, after which everything runs again and the verb is done."""
    began = time.monotonic()
    until_done(lambda: verb.prepare(world.sites))
    if card.victim == "process":
        _kill_process(world, card, verb, random)
    else:
        _kill_beside(world, card, verb, random)
    world.servers.start()
    until_done(lambda: verb.run(world.sites))
    return Crash(
        point=card.point,
        victim=card.victim,
        verb=card.verb,
        seconds=round(time.monotonic() - began, 2),
    )


def until_done(run: Callable[[], object]) -> None:
    """Ask again, as a schedule does, until it is done by itself."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            run()
        except (SnaptideError, SQLAlchemyError, psycopg.Error):
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
        else:
            return


def _kill_process(world: World, card: Card, verb: Verb, random: Random) -> None:
    """Run the verb in a process of its own, that dies at the point or at some time."""
    if card.point != ANY_TIME:
        _until(
            world,
            lambda: _run_victim(world, card, verb, None) == -9,
            f"{card} was not reached",
        )
        return
    longest = 8.0 if verb.spark else 0.6
    while _run_victim(world, card, verb, random.uniform(0, longest)) != -9:
        longest /= 2


def _run_victim(world: World, card: Card, verb: Verb, seconds: float | None) -> int:
    fault = f"{card.point}:kill" if seconds is None else ""
    ready = CONTEXT.Event()
    process = CONTEXT.Process(
        target=_victim, args=(verb.run, world.urls, fault, ready), daemon=True
    )
    process.start()
    try:
        if seconds is not None:
            ready.wait(PATIENCE)
            time.sleep(seconds)
            process.kill()
        process.join(PATIENCE)
        assert process.exitcode is not None, f"{card} does not end"
        return process.exitcode
    finally:
        process.kill()


def _victim(
    run: Callable[[Directory], object],
    urls: Mapping[str, str],
    fault: str,
    ready: threading.Event,
) -> None:
    """What is killed; how it ends otherwise is not asked."""
    os.environ["SNAPTIDE_FAULT"] = fault
    ready.set()
    _try(lambda: run(Directory(urls)))


def _kill_beside(world: World, card: Card, verb: Verb, random: Random) -> None:
    """Run the verb in this process, and kill what it works with."""
    action = _action(world, card.victim)
    if card.point == ANY_TIME:
        timer = threading.Timer(random.uniform(0, 0.5), action)
        timer.start()
        _try(lambda: verb.run(world.far))
        timer.join()
        return
    with at(card.point, action) as reached:

        def reach() -> bool:
            _try(lambda: verb.run(world.far))
            return bool(reached)

        _until(world, reach, f"{card} was not reached")


def _action(world: World, victim: str) -> Callable[[], object]:
    if victim == "jvm":
        return _kill_jvm
    return world.lines.cut if victim == "line" else world.server(victim).kill


def _kill_jvm() -> None:
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def at(
    point: str, action: Callable[[], object], thread: int | None = None
) -> Iterator[Sequence[str]]:
    """Do something the first time that the point is reached.

    Parameters:
        thread: only where this one reaches it; None means any.
    """
    reached: list[str] = []
    before = faults.point

    def stop_here(name: str) -> None:
        mine = thread in (None, threading.get_ident())
        if name == point and not reached and mine:
            reached.append(name)
            action()

    faults.point = stop_here
    try:
        yield reached
    finally:
        faults.point = before


def _try(run: Callable[[], object]) -> None:
    """What fails, and how, is not asked: only what comes after it."""
    try:
        run()
    except Exception:
        return


def _until(world: World, reached: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, otherwise
        time.sleep(PAUSE)
        # Nothing may be queued in a quiet moment.
        world.hurry()
