"""Whose turn it is to push: two hundred sites, four threads, and nobody left out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from celery import Celery

from deferred import PushReport
from deferred.queues.backlog import Waiting
from sites import Directory, Site
from snaptide import small_pushes
from snaptide.small_pushes import AT_ONCE, SmallPushes

SITES = 200

_FEW = Waiting(pushed_at=None, many=False, noted=False)


class Pushes:
    """Stands in for the pushes, each of which takes as long as it is told."""

    def __init__(self, take: Callable[[str], object]) -> None:
        self._take = take
        self._lock = threading.Lock()
        self.begun: list[str] = []
        self.tasks: list[str] = []
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def push(self, site: Site, name: str, **_: object) -> PushReport:
        """Push, and count how many do so at once, in all and to a destination."""
        with self._lock:
            self.begun.append(site.name)
            for one in (name, "all"):
                self.running[one] += 1
                self.most[one] = max(self.most[one], self.running[one])
        self._take(site.name)
        with self._lock:
            for one in (name, "all"):
                self.running[one] -= 1
        return PushReport(site=site.name, destination=name)

    def task(
        self, _app: Celery, _task: str, site: str, *_: object, **__: object
    ) -> None:
        """Note that a task was asked for."""
        self.tasks.append(site)


@pytest.fixture
def sites() -> Directory:
    nowhere = "postgresql://nowhere/none"
    return Directory({f"s{number}": nowhere for number in range(SITES)})


def stand_in(
    monkeypatch: pytest.MonkeyPatch,
    take: Callable[[str], object],
    to: Callable[[str], str] = lambda _: "hq",
) -> Pushes:
    pushes = Pushes(take)
    monkeypatch.setattr(small_pushes, "push_small", pushes.push)
    monkeypatch.setattr(small_pushes, "enqueue", pushes.task)
    monkeypatch.setattr(small_pushes, "_waiting", lambda site: {to(site.name): _FEW})
    return pushes


def test_a_busy_site_gets_its_turn_like_the_others(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes = stand_in(monkeypatch, take=lambda _: time.sleep(0.001))
    monkeypatch.setattr(small_pushes, "PATIENCE", 600)

    async def all_of_them() -> None:
        with SmallPushes(Celery(), lasting=30) as small:

            async def busy() -> None:
                while True:
                    await small.look(sites["s0"])

            others = [small.look(site) for site in sites.values() if site.name != "s0"]
            always = asyncio.create_task(busy())
            await asyncio.gather(*others)
            always.cancel()
            await asyncio.gather(always, return_exceptions=True)

    asyncio.run(all_of_them())
    turns = Counter(pushes.begun)
    assert set(turns) == set(sites)
    assert all(turns[name] == 1 for name in sites if name != "s0")
    # It stands behind those that asked before it, each time anew.
    assert turns["s0"] <= 4
    assert pushes.most == {"all": AT_ONCE - 1, "hq": AT_ONCE - 1}
    assert pushes.tasks == []


def test_who_waits_for_a_turn_too_long_gets_a_task(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    pushes = stand_in(
        monkeypatch,
        take=lambda site: site == "s9" or over.wait(),
        to=lambda site: "lax" if site == "s9" else "hq",
    )
    monkeypatch.setattr(small_pushes, "PATIENCE", 0.2)

    async def some_of_them() -> None:
        with SmallPushes(Celery(), lasting=30) as small:
            first = [sites[f"s{number}"] for number in range(AT_ONCE + 1)]
            held = [asyncio.create_task(small.look(site)) for site in first]
            while len(pushes.tasks) < 2:
                await asyncio.sleep(0.01)
            await small.look(sites["s9"])
            over.set()
            await asyncio.gather(*held)

    asyncio.run(some_of_them())
    assert sorted(pushes.tasks + pushes.begun) == ["s0", "s1", "s2", "s3", "s4", "s9"]
    assert len(pushes.tasks) == 2
    assert "s9" in pushes.begun
