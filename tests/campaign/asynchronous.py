"""Crashes of push, refresh, purge, creation, drop and upgrade, while users write."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random

import psycopg
from pyspark import SparkContext
from sqlalchemy.exc import SQLAlchemyError

from sites import faults
from sites.errors import SnaptideError
from tests.campaign import deck, services
from tests.campaign.deck import Card
from tests.campaign.kinds import ANY_TIME, Crash
from tests.campaign.servers import Servers
from tests.campaign.verbs import VERBS, Verb
from tests.campaign.world import World

#: Crashes before the end state is compared.
EPISODE = 50

#: One episode in so many is about workers, beat and Redis.
WITH_SERVICES = 4

#: Within so many seconds all has to go on by itself.
PATIENCE = 180

ROOT = Path(__file__).resolve().parents[2]

points = deck.points


def episode(seed: int, number: int, crashes: int) -> Iterator[Crash]:
    """Crash while users write, and see that it ends as if nothing had been."""
    random = Random(f"{seed} {number}")
    world = _world()
    if number % WITH_SERVICES == 0:
        yield from services.episode(world, random, number, crashes)
        return
    first = (number - 1 - number // WITH_SERVICES) * EPISODE
    cards = deck.deal(seed, first, min(crashes, EPISODE))
    with world.users(number):
        for card in cards:
            yield _crash(world, card, random)
    world.assert_as_without_crashes()


def end() -> None:
    """Let the world go, which otherwise goes when the process ends."""
    world = _world()
    _world.cache_clear()
    atexit.unregister(world.close)
    world.close()


@cache
def _world() -> World:
    """The world of this process; it goes when the process ends."""
    servers = Servers()
    servers.prepare()
    world = World(servers)
    atexit.register(world.close)
    return world


def _crash(world: World, card: Card, random: Random) -> Crash:
    began = time.monotonic()
    verb = VERBS[card.verb]
    if card.verb == "upgrade":
        world.make_fresh()
    _until_done(lambda: verb.prepare(world.sites))
    if card.victim == "process":
        _kill_process(world, card, verb, random)
    else:
        _kill_beside(world, card, verb, random)
    world.servers.start()
    _until_done(lambda: verb.run(world.sites))
    return Crash(
        point=card.point,
        victim=card.victim,
        verb=card.verb,
        seconds=round(time.monotonic() - began, 2),
    )


def _kill_process(world: World, card: Card, verb: Verb, random: Random) -> None:
    """Run the verb in a process of its own, that dies at the point or at some time."""
    if card.point != ANY_TIME:
        _until(lambda: _run_victim(world, card, None) == -9, f"{card} was not reached")
        return
    longest = 8.0 if verb.spark else 0.6
    while _run_victim(world, card, random.uniform(0, longest)) != -9:
        longest /= 2


def _run_victim(world: World, card: Card, seconds: float | None) -> int:
    fault = {} if seconds is not None else {"SNAPTIDE_FAULT": f"{card.point}:kill"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.campaign.victim", card.verb],
        env={**os.environ, "PYTHONPATH": str(ROOT), **fault},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(json.dumps(world.urls))
        process.stdin.close()
        process.stdout.readline()
        if seconds is not None:
            time.sleep(seconds)
            process.kill()
        try:
            return process.wait(timeout=PATIENCE)
        finally:
            process.kill()


def _kill_beside(world: World, card: Card, verb: Verb, random: Random) -> None:
    """Run the verb in this process, and kill what it works with."""
    action = _action(world, card.victim)
    if card.point == ANY_TIME:
        timer = threading.Timer(random.uniform(0, 0.5), action)
        timer.start()
        _try(lambda: verb.run(world.far))
        timer.join()
        return
    with _at(card.point, action) as reached:
        # Nothing may be queued in a quiet moment.
        def reach() -> bool:
            _try(lambda: verb.run(world.far))
            return bool(reached)

        _until(reach, f"{card} was not reached")


def _action(world: World, victim: str) -> Callable[[], object]:
    if victim == "master":
        return world.servers.hq.kill
    if victim == "site":
        return world.servers.jfk.kill
    return _kill_jvm if victim == "jvm" else world.lines.cut


def _kill_jvm() -> None:
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()


@contextmanager
def _at(point: str, action: Callable[[], object]) -> Iterator[Sequence[str]]:
    """Do something the first time that the point is reached."""
    reached: list[str] = []
    before = faults.point

    def stop_here(name: str) -> None:
        if name == point and not reached:
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


def _until(reached: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)


def _until_done(run: Callable[[], object]) -> None:
    """Ask again, as a schedule does, until it is done by itself."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            run()
        except (SnaptideError, SQLAlchemyError, psycopg.Error):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return
