"""Sites insert side by side, are killed, restored and copied: no number comes twice.

`SNAPTIDE_NUMBERS_SITES=50 SNAPTIDE_NUMBERS_INSERTS=100000` plays it at length.
"""

from __future__ import annotations

import os
import random
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import psycopg
import pytest

import deferred
import snapshots
from sites import Directory
from sites.errors import SiteChanged, SiteRestored
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import application, run
from tests.numbered import NumberedWorld
from tests.pushing import end_push, start_push
from tests.seeds import seed

SITES = int(os.environ.get("SNAPTIDE_NUMBERS_SITES", "3"))
INSERTS = int(os.environ.get("SNAPTIDE_NUMBERS_INSERTS", "4000"))
NAMES = [f"shop{n}" for n in range(SITES)]
POINTS = [
    f"numbers.{one}"
    for one in ("before_lease", "after_lease", "after_meet", "before_store")
]
#: Sessions of users at each site, and the most rows of one INSERT.
SESSIONS, MOST = 2, max(20, INSERTS // 50)
#: Sessions of users at all sites, which have one server in common.
AT_ONCE = 50

_INSERT = "INSERT INTO orders (shop) SELECT %s FROM generate_series(1, %s) RETURNING id"


@prepared_once("hq", *NAMES, needs="spark")
def shops(sites: Directory) -> None:
    run(sites["hq"], "CREATE TABLE public.orders (id bigserial PRIMARY KEY, shop text)")
    log(sites["hq"], "orders")
    for name in NAMES:
        snapshots.create(sites[name], "orders", master="hq", updatable=True)
        snapshots.refresh(sites[name], "orders")


@pytest.fixture
def world(shops: Directory, clone: Clone) -> Iterator[NumberedWorld]:
    made = NumberedWorld(shops, clone)
    yield made
    made.directory.close()


@pytest.mark.faults
@pytest.mark.timeout(7200)
def test_no_number_comes_twice(world: NumberedWorld) -> None:
    begin = seed("SNAPTIDE_NUMBERS_SEED")
    print("seed", begin)  # noqa: T201
    play = Play(world, random.Random(begin))
    while play.wanting:
        play.burst()
        play.event()
    for name in play.names:
        deferred.push(world[name])
    world.assert_no_number_twice()
    _assert_leases_are_apart(world, play)
    print(play.told)  # noqa: T201


class Play:
    """A random history of sites that number their own rows."""

    def __init__(self, world: NumberedWorld, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.names = [*NAMES]
        self.of_hq: set[int] = set()
        #: inserts of each site, and what happened how often
        self.inserts: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        #: sites that have used up their numbers
        self.out: set[str] = set()
        self._lock = threading.Lock()

    @property
    def wanting(self) -> list[str]:
        """The sites that have not inserted as much as they are to insert."""
        every = ("hq", *self.names)
        return [name for name in every if self.inserts[name] < INSERTS]

    @property
    def told(self) -> str:
        return f"{sum(self.inserts.values()):,} inserts, {dict(self.happened)}"

    def burst(self) -> None:
        """Users insert at many sites at once, while some sites push."""
        pushing = self.chance.sample(self.names, k=self.chance.randint(0, 2))
        out = [name for name in self.names if name in self.out]
        self.out.clear()
        with ThreadPoolExecutor(AT_ONCE) as users:
            used = [
                users.submit(self._use, name, self.chance.randrange(2**32))
                for name in self.wanting
                for _ in range(SESSIONS)
            ]
            for name in dict.fromkeys([*out, *pushing]):
                deferred.push(self.world[name])
        for one in used:
            one.result()

    def event(self) -> None:
        """One of the things that happen to databases."""
        name = self.chance.choice(self.names)
        events = (self._killed, self._restored, self._rolled_back, self._copied)
        happens = self.chance.choice((*events, self._killed, self._master_restored))
        happens(name)
        self.happened[happens.__name__.strip("_")] += 1

    def _use(self, name: str, seed: float) -> None:
        chance = random.Random(seed)
        got: list[int] = []
        with application(self.world[name]) as session:
            for _ in range(5):
                rows = chance.randint(1, MOST)
                try:
                    made = session.execute(_INSERT, (name, rows)).fetchall()
                except psycopg.errors.SequenceGeneratorLimitExceeded:
                    session.rollback()
                    self.out.add(name)
                    break
                session.commit()
                got += [row[0] for row in made]
        with self._lock:
            self.world.drawn += got
            self.inserts[name] += len(got)
            if name == "hq":
                self.of_hq |= {*got}

    def _killed(self, name: str) -> None:
        run(self.world[name], "UPDATE snaptide.numbered_column SET size = 10000000")
        fault = f"{self.chance.choice(POINTS)}:kill"
        end_push(
            start_push(self.world.directory, fault, origin=name), self.world.directory
        )

    def _restored(self, name: str) -> None:
        backup = self.world.backup(name)
        self.burst()
        if self.chance.random() < 0.5:
            deferred.push(self.world[name])
        self.world.restore(name, backup)
        with application(self.world[name]) as session, pytest.raises(psycopg.Error):
            session.execute("INSERT INTO orders (shop) VALUES ('restored')")
        repair(self.world[name])
        deferred.push(self.world[name])

    def _rolled_back(self, name: str) -> None:
        """Nothing at the site shows it; the master does, before it gives numbers."""
        backup = self.world.backup(name)
        run(self.world[name], "INSERT INTO orders (shop) VALUES ('lost')")
        deferred.push(self.world[name])
        self.world.restore(name, backup, noticed=False)
        with pytest.raises((SiteRestored, SiteChanged)):
            deferred.push(self.world[name])
        repair(self.world[name])
        deferred.push(self.world[name])

    def _copied(self, name: str) -> None:
        if len(self.names) > SITES + 2:
            return
        copy = f"copy{len(self.names)}"
        backup = self.world.backup(name)
        self.world.urls[copy] = self.world.clone(backup, copy)
        self.world.directory = Directory(self.world.urls)
        self.burst()
        with application(self.world[copy]) as session, pytest.raises(psycopg.Error):
            session.execute("INSERT INTO orders (shop) VALUES ('copy')")
        repair(self.world[copy])
        deferred.push(self.world[copy])
        self.names.append(copy)

    def _master_restored(self, _name: str) -> None:
        before = {*self.of_hq}
        backup = self.world.backup("hq")
        self.burst()
        for name in self.names:
            deferred.push(self.world[name])
        self.world.restore("hq", backup)
        # Rows that only the master had are lost, and their numbers with them.
        lost = self.of_hq - before
        self.world.drawn = [one for one in self.world.drawn if one not in lost]
        self.of_hq = before
        self.inserts["hq"] = len(before)
        assert repair(self.world["hq"]).numbers_unknown == ()


def _assert_leases_are_apart(world: NumberedWorld, play: Play) -> None:
    """No number is in two leases, and none that the master drew is in any."""
    leases = run(
        world["hq"], "SELECT first, last FROM snaptide.number_lease ORDER BY first"
    )
    assert all(end < begin for (_, end), (begin, _) in pairwise(leases))
    own = sorted(play.of_hq)
    assert not any(
        bisect_left(own, first) < bisect_right(own, last) for first, last in leases
    )
