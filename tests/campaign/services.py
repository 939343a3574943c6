"""Crashes around real workers and beat, after which nobody asks for anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import deferred
from tests.campaign.kinds import ANY_TIME, Crash
from tests.campaign.world import World
from tests.fix_worker import Service, Services, eventually
from tests.linked_table import queued

#: Crashes of one episode: a worker takes its JVM with it.
EPISODE = 10

#: Seconds within which all has to be well again by itself.
PATIENCE = 600

#: What runs by itself meanwhile.
SCHEDULES = (("push", "*", "2s"), ("refresh", "books", "5s"), ("purge", "*", "10s"))


class Crew:
    """A worker and a beat; who was killed is replaced, as a supervisor does."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._services = Services(_settings(world, folder))
        self._worker = self._services.worker()
        self._beat = self._services.beat()

    def crash(self, victim: str) -> None:
        """Kill one, and have it come back."""
        servers = self._world.servers
        if victim == "worker":
            self._worker = _replaced(self._worker, self._services.worker)
        elif victim == "beat":
            self._beat = _replaced(self._beat, self._services.beat)
        else:
            killed = servers.redis if victim == "redis" else self._world.server(victim)
            killed.kill()
            servers.start()

    def stop(self) -> None:
        """End both."""
        self._services.stop()


VICTIMS = ("worker", "redis", "beat", "master", "site")


def episode(world: World, random: Random, number: int, count: int) -> Iterator[Crash]:
    """Kill what is there to be killed, and wait until all is as if nothing had been."""
    victims = [VICTIMS[n % len(VICTIMS)] for n in range(min(count, EPISODE))]
    random.shuffle(victims)
    with _working(world) as crew:
        with world.users(number):
            for victim in victims:
                began = time.monotonic()
                time.sleep(random.uniform(0.5, 3))
                crew.crash(victim)
                seconds = round(time.monotonic() - began, 2)
                yield Crash(
                    point=ANY_TIME, victim=victim, verb="tasks", seconds=seconds
                )
        _wait_until_settled(world)
    world.assert_settled()


@contextmanager
def _working(world: World) -> Iterator[Crew]:
    for kind, subject, every in SCHEDULES:
        deferred.schedule(world.jfk, kind, subject, every=every)
    crew = Crew(world, world.servers.folder)
    try:
        yield crew
    finally:
        crew.stop()
        for kind, subject, _ in SCHEDULES:
            deferred.unschedule(world.jfk, kind, subject)


def _replaced(service: Service, start: Callable[[], Service]) -> Service:
    service.kill()
    return start()


def _wait_until_settled(world: World) -> None:
    try:
        eventually(lambda: _settled(world), seconds=PATIENCE, what="what was written")
    except AssertionError:
        assert queued(world.jfk) == 0
        world.assert_settled()
        raise


def _settled(world: World) -> bool:
    """Whether all bookings are everywhere, and none waits to be looked at again."""
    if queued(world.jfk):
        return False
    try:
        world.assert_settled()
    except AssertionError:
        return False
    return True


def _settings(world: World, folder: Path) -> Path:
    sites = "".join(
        f'[sites.{name}]\nurl = "{world.urls[name]}"\n' for name in ("hq", "jfk")
    )
    path = folder / "snaptide.toml"
    broker = f'[broker]\nurl = "{world.servers.redis.url()}"\nvisibility_timeout = 10\n'
    path.write_text(broker + sites)
    path.chmod(0o600)
    return path
