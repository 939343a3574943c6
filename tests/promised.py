"""Many sites with contracts, and what they show by the test's own clock."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from random import Random

import psycopg
from psycopg import sql

import deferred
import masters
import snapshots
from masters import ContractState
from sites import Directory, Site
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import QUIET_SETTINGS, new_folder
from tests.fix_sites import log, name_site
from tests.linked_table import application, run
from tests.stories import refresh

TEMPLATE = "template_site"

Session = psycopg.Connection[tuple[object, ...]]

#: Seconds by which the test and the master may differ about an age: a look takes as
#: long on a busy machine.
TOLERANCE = 3.0

#: Seconds within which a master hears of what a site shows.
HEARD = 10.0

#: A stretch of time, in seconds since the epoch.
Stretch = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What one site is promised, and what is done to keep it."""

    site: str
    #: seconds within which a change is to be visible
    within: int
    #: seconds between two refreshes
    every: int

    @property
    def table(self) -> str:
        """The site's own table at the master, and its snapshot."""
        return f"t_{self.site}"


def promises(count: int, chance: Random) -> list[Promise]:
    """Some that schedules keep while all is well, and some that they cannot keep."""
    return [
        Promise(
            site=f"s{number:02}",
            within=chance.choice((8, 12, 16, 24)),
            every=chance.choice((5, 10, 20, 30)),
        )
        for number in range(1, count + 1)
    ]


def _make_sites(server: PostgresServer, promised: Sequence[Promise]) -> Directory:
    """A master with a table for each site, and sites that show them, by contract."""
    with Directory({"template": server.create_database(TEMPLATE)}) as template:
        migrate.upgrade(template["template"])
    names = ["hq", *(one.site for one in promised)]
    made = Directory(
        {name: server.create_database(name, template=TEMPLATE) for name in names}
    )
    for site in made.values():
        name_site(site)
    for one in promised:
        _promise(made["hq"], made[one.site], one)
    return made


def _promise(hq: Site, site: Site, one: Promise) -> None:
    run(hq, f"CREATE TABLE public.{one.table} (id int PRIMARY KEY)")
    log(hq, one.table)
    snapshots.create(site, one.table, master="hq", group="g", updatable=True)
    refresh(site, "g")
    within = timedelta(seconds=one.within)
    snapshots.set_contract(site, "g", visible_within=within)
    deferred.schedule(site, "refresh", "g", every=f"{one.every}s")


@contextmanager
def on_a_server(
    version: int, promised: Sequence[Promise], **settings: str
) -> Iterator[Directory]:
    """The same sites, on a server of their own for as long as the block lasts."""
    folder = new_folder("snaptide-promised-")
    server = PostgresServer(folder, version, settings={**QUIET_SETTINGS, **settings})
    try:
        server.start()
        with _make_sites(server, promised) as made:
            yield made
    finally:
        server.stop()
        shutil.rmtree(folder)


@dataclass(slots=True)
class Truth:
    """When changes of one site's table were made, and when the site showed them."""

    made: list[float] = field(default_factory=list)
    #: of the first of them; others are not shown yet
    shown: list[float] = field(default_factory=list)

    def late(self, limit: float, until: float) -> list[Stretch]:
        """When the oldest change that was not shown was older than a limit, in order.

        Parameters:
            until: the last time at which anybody looked.
        """
        found: list[Stretch] = []
        for number, made in enumerate(self.made):
            over = self.shown[number] if number < len(self.shown) else math.inf
            over = min(over, until)
            if made + limit >= over:
                continue
            if found and made + limit <= found[-1][1]:
                found[-1] = found[-1][0], max(over, found[-1][1])
            else:
                found.append((made + limit, over))
        return found

    def heard(self, kills: Sequence[float], within: float) -> Truth:
        """The same, by what the master was told of it.

        A refresh that is killed when the site shows its changes has not told the master
        yet: it hears of them with the next one.

        Parameters:
            kills: when workers were killed.
            within: seconds that a refresh may take until it has told the master.
        """
        moments = sorted({*self.shown})
        later = dict(pairwise([*moments, math.inf]))
        return Truth(
            made=self.made,
            shown=[
                later[shown] if any(0 <= k - shown <= within for k in kills) else shown
                for shown in self.shown
            ],
        )


class Users:
    """They write at the master and at the sites, and look what the sites show."""

    def __init__(
        self, sites: Directory, promised: Sequence[Promise], seed: int
    ) -> None:
        self.truth: Mapping[str, Truth] = {one.site: Truth() for one in promised}
        self._sites = sites
        self._promised = promised
        self._chance = Random(seed)
        self._over = threading.Event()
        self._failed: list[BaseException] = []

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have them work while the block runs."""
        works = (self._write, self._look)
        threads = [threading.Thread(target=self._do, args=(work,)) for work in works]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._over.set()
            for one in threads:
                one.join()
        assert not self._failed, self._failed

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._failed.append(error)

    def _write(self) -> None:
        """Change a table of the master after the other, and now and then a site's."""
        own = 0
        with application(self._sites["hq"]) as master:
            master.autocommit = True
            while not self._over.wait(0.1):
                one = self._chance.choice(self._promised)
                made = self.truth[one.site].made
                insert = f"INSERT INTO public.{one.table} VALUES ({len(made) + 1})"
                master.execute(insert.encode())
                made.append(time.time())
                if self._chance.random() < 0.1:
                    own += 1
                    insert = f"INSERT INTO public.{one.table} VALUES ({-own})"
                    run(self._sites[one.site], insert)

    def _look(self) -> None:
        """Note which of the changes each site shows: refreshes bring them in order."""
        sessions: dict[str, Session] = {}
        try:
            for one in self._promised:
                sessions[one.site] = application(self._sites[one.site])
                sessions[one.site].autocommit = True
            while not self._over.wait(0.1):
                for one in self._promised:
                    self._look_at(sessions[one.site], one)
        finally:
            for session in sessions.values():
                session.close()

    def _look_at(self, session: Session, one: Promise) -> None:
        query = sql.SQL("SELECT max(id) FROM public.{}").format(
            sql.Identifier(one.table)
        )
        found = session.execute(query).fetchone()
        newest = int(str(found[0] or 0)) if found is not None else 0
        shown = self.truth[one.site].shown
        shown.extend([time.time()] * (newest - len(shown)))


class Told:
    """What a master tells of contracts; it keeps the last states alone."""

    def __init__(self, hq: Site, promised: Sequence[Promise]) -> None:
        self._hq = hq
        self._states: dict[str, set[tuple[float, bool]]] = {
            one.site: set() for one in promised
        }

    def hear(self) -> None:
        """Remember what is told now."""
        for site, states in self._states.items():
            states |= {
                (one.at.timestamp(), one.state is ContractState.KEPT)
                for one in masters.contract_changes(self._hq, site, "g")
            }

    def late(self, site: str) -> list[Stretch]:
        """When the contract of a site was told not to be kept, in order."""
        found: list[Stretch] = []
        begun: float | None = None
        for at, is_kept in sorted(self._states[site]):
            if is_kept and begun is not None:
                found.append((begun, at))
                begun = None
            elif not is_kept and begun is None:
                begun = at
        return found if begun is None else [*found, (begun, time.time())]


def judged(
    one: Promise,
    truth: Truth,
    its: list[Stretch],
    until: float,
    kills: list[float],
) -> tuple[tuple[int, int], list[str]]:
    """How many breaches there were and were told, and which are wrong.

    What is told begins in a breach; it stands until the look after it has ended.
    """
    certain = truth.late(one.within + TOLERANCE, until)
    heard = truth.heard(kills, HEARD)
    possible = heard.late(one.within - TOLERANCE, time.time())
    begun = [(start - HEARD, start + TOLERANCE) for start, _ in its]
    wrong = {
        "untold": apart(certain, [(start - HEARD, end) for start, end in its]),
        "no breach": apart(begun, possible),
    }
    said = [f"{what}: {one}, {when}" for what, those in wrong.items() for when in those]
    return (len(certain), len(its)), said


def apart(some: Sequence[Stretch], others: Sequence[Stretch]) -> list[Stretch]:
    """Those of some that meet none of the others."""
    return [one for one in some if not any(_meet(one, other) for other in others)]


def _meet(one: Stretch, other: Stretch) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
