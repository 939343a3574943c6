"""A world of clashes: two verbs at once, of which one may have lost its lock.

And verbs that find another database under the name of a site: a copy, or an empty one.
Users book at two masters and at a site meanwhile. Whatever is refused or given up, when
it is quiet each booking counts once everywhere, and the site equals its master.
"""

from __future__ import annotations

import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random

import psycopg
from sqlalchemy.exc import DBAPIError

import deferred
import groups
import masters
import snapshots
import synchronous
from groups.unfinished import finish
from masters import rules
from sites import Directory
from sites.errors import SnaptideError
from snapshots.refreshing import former
from tests.campaign.world import LEFT_OVER
from tests.let_go import END_LOCKS, WAITS
from tests.linked_table import run
from tests.oracle.histories.clash_users import ACCOUNTS, DDL, TABLES, Tellers
from tests.oracle.histories.clash_verbs import (
    BOOKS,
    GROUP,
    MASTERS,
    SITE,
    VERBS,
    create_note,
    is_synchronous,
    master_of,
    push_from,
    resume,
)
from tests.oracle.histories.world import url
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.ground import Ground
from tests.oracle.runner.played import Violation
from tests.oracle.story import Story
from tests.stories import assert_equal_to_master

EVERYBODY = (*MASTERS, SITE)
#: Seconds that the second verb gets before the first goes on, and until it has to end.
HEADSTART, PATIENCE = 1.0, 300.0
#: After so many histories all has to be quiet.
SETTLED = 4
#: Databases that may have the name of a site.
STRANGERS = ("copy", "older copy", "empty")
SHAPES = frozenset(
    {
        *(f"clash: {name}" for name in VERBS),
        *(f"stranger: {kind}" for kind in STRANGERS),
        *("lock lost", "second verb waits", "verb refused"),
    }
)


@dataclass
class ClashWorld:
    """Two masters and a site; each history is a clash of two verbs.

    Parameters:
        chance: draws what concerns all histories.
        histories: by number, what draws for it alone.
    """

    sites: Directory
    ground: Ground
    chance: Random
    histories: Mapping[int, Random]
    story: Story
    met: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    #: an older copy of each site
    _older: dict[str, str] = field(default_factory=dict)
    #: all databases that have had the name of a site
    _strangers: list[str] = field(default_factory=list)

    def play(self) -> list[Violation]:
        """Build it, and play histories until one of them goes wrong."""
        self._urls = {name: url(self.sites, name) for name in EVERYBODY}
        self.tellers = Tellers(self.sites, self._urls, self.story)
        with ExitStack() as stack:
            #: the same sites, as another process reaches them
            self._others = stack.enter_context(Directory(self._urls))
            self._pool = stack.enter_context(ThreadPoolExecutor(1))
            stack.callback(self._drop_strangers)
            self._build()
            last = max(self.histories)
            for number, chance in self.histories.items():
                clashes = chance.random() < 0.9
                meets = self._clash if clashes else self._meet_stranger
                found = meets(number, chance)
                if not found and (number % SETTLED == 0 or number == last):
                    found = self._settled()
                if found:
                    return [Violation(number, what) for what in found]
        return []

    def _build(self) -> None:
        for name in MASTERS:
            run(self.sites[name], *DDL)
        home = self.sites["a"]
        groups.create_group(home, GROUP)
        for table in TABLES:
            groups.add_table(home, GROUP, table)
        groups.add_master(home, GROUP, "b")
        for name in MASTERS:
            for table in TABLES:
                masters.create_snapshot_log(self.sites[name], table)
            rules.set_column_group(self.sites[name], "account", "n", ["n"])
            rules.add_update_resolution(self.sites[name], "account", "n", "additive")
        filled = f"SELECT i, 0 FROM generate_series(0, {ACCOUNTS - 1}) i"
        run(home, f"INSERT INTO account {filled}")
        push_from(home)
        for table in TABLES[:2]:
            snapshots.create(
                self.sites[SITE], table, master="a", group=BOOKS, updatable=True
            )
        create_note(self.sites)
        snapshots.refresh(self.sites[SITE], BOOKS)

    # --- two at once ---------------------------------------------------------------

    def _clash(self, number: int, chance: Random) -> list[str]:
        first, second = (chance.choice([*VERBS]) for _ in range(2))
        nth, ends = 1 + int(25 * chance.random() ** 2), chance.random() < 0.6
        ended = EVERYBODY if chance.random() < 0.5 else (chance.choice(EVERYBODY),)
        self.story.tell(
            f"{number}: {first}, at point {nth} {second}"
            + (f", without the locks at {ended}" if ends else "")
        )
        self.met[number] |= {f"clash: {first}", f"clash: {second}"}
        self._write(chance)
        began: list[Future[object]] = []

        def meanwhile() -> None:
            if ends:
                for name in ended:
                    if run(self._others[name], END_LOCKS):
                        self.met[number].add("lock lost")
            self._write(chance, 2)
            began.append(self._pool.submit(VERBS[second][0], self._others))
            if self._waits(began[0]):
                self.met[number].add("second verb waits")

        with at_nth_point(nth, meanwhile) as moment:
            found = self._judged(number, first, lambda: VERBS[first][0](self.sites))
        self.story.tell(f"  {first} came to {moment.point}")
        if began:
            wait = partial(began[0].result, timeout=PATIENCE)
            found += self._judged(number, second, wait)
        return found

    def _write(self, chance: Random, times: int = 3) -> None:
        for _ in range(times):
            self.tellers.write(chance.choice((*EVERYBODY, SITE)), chance)

    def _waits(self, began: Future[object]) -> bool:
        """Let the second verb go on until it is done, or waits for the first."""
        deadline = time.monotonic() + HEADSTART
        while not began.done() and time.monotonic() < deadline:
            if any(run(self._others[name], WAITS) for name in EVERYBODY):
                return True
            time.sleep(0.02)
        return False

    def _judged(self, number: int, name: str, act: Callable[[], object]) -> list[str]:
        """Do something; what has gone wrong in a way that has no name."""
        try:
            act()
        except Exception as error:
            self.story.tell(f"  {name}: {type(error).__name__}: {str(error)[:300]}")
            self.story.count(f"{name}: {type(error).__name__}")
            if not _has_name(error):
                return [f"{name}: {traceback.format_exc()[-6000:]}"]
            self.met[number].add("verb refused")
        else:
            self.story.tell(f"  {name} is done")
        return []

    # --- another database ------------------------------------------------------------

    def _meet_stranger(self, number: int, chance: Random) -> list[str]:
        who, kind = chance.choice(EVERYBODY), chance.choice(STRANGERS)
        name = chance.choice([*VERBS])
        verb, asks = VERBS[name]
        self._write(chance)
        if kind == "empty":
            found = self.ground.empty(who)
            self._strangers.append(found)
        elif kind == "older copy" and who in self._older:
            found = self._older[who]
        else:
            kind, found = "copy", self._copied(who)
        self.story.tell(f"{number}: {name}, {kind} has the name of {who}")
        self.met[number].add(f"stranger: {kind}")
        master = master_of(self.sites[SITE])
        with Directory({**self._urls, who: found}) as strange:
            before = self._contents(found)
            wrong = self._judged(number, name, lambda: verb(strange))
            refused = "verb refused" in self.met[number]
            if who == master and asks and not refused:
                wrong.append(f"{name} took the {kind} for {who}")
            if refused and self._contents(found) != before:
                wrong.append(f"{name} was refused, and changed the {kind} of {who}")
        return wrong

    def _copied(self, who: str) -> str:
        for directory in (self.sites, self._others):
            for site in directory.values():
                site.close()
        self._older[who] = self.ground.copy(self._urls[who])
        self._strangers.append(self._older[who])
        return self._older[who]

    def _contents(self, there: str) -> dict[str, list[tuple[object, ...]]]:
        found = {}
        with psycopg.connect(there) as session:
            for table in TABLES:
                query = f"SELECT to_regclass('public.{table}') IS NULL"
                if session.execute(query.encode()).fetchone() == (False,):
                    rows = f"SELECT * FROM public.{table} ORDER BY 1"
                    found[table] = session.execute(rows.encode()).fetchall()
        return found

    def _drop_strangers(self) -> None:
        for one in self._strangers:
            self.ground.drop(one)

    # --- when it is quiet ------------------------------------------------------------

    def _settled(self) -> list[str]:
        """Let everything that was broken off go on; what is wrong then."""
        for what in (self._recover, self._go_on, self._compare):
            deadline = time.monotonic() + 10
            while True:
                try:
                    what()
                except Exception as error:
                    if _has_name(error) and time.monotonic() < deadline:
                        self.story.tell(f"  again: {type(error).__name__}")
                        time.sleep(0.05)
                        continue
                    return [f"not settled: {traceback.format_exc()[-6000:]}"]
                break
        return [what for name in EVERYBODY for what in self.tellers.wrong(name)]

    def _recover(self) -> None:
        for site in self.sites.values():
            synchronous.recover(site)
        for name in MASTERS:
            finish(self.sites[name])
        resume(self.sites)

    def _go_on(self) -> None:
        create_note(self.sites)
        for _ in range(2):
            for name in (SITE, *MASTERS, *MASTERS):
                push_from(self.sites[name])
            snapshots.refresh(self.sites[SITE], BOOKS, allow_mass_delete=True)
        former.unregister_at_former(self.sites[SITE], pause=timedelta())

    def _compare(self) -> None:
        site = self.sites[SITE]
        assert_equal_to_master(site)
        first, second = (self._contents(self._urls[name]) for name in MASTERS)
        assert first == second, f"{first=} {second=}"
        for name in EVERYBODY:
            assert run(self.sites[name], LEFT_OVER) == [], name
            parked = deferred.list_errors(self.sites[name])
            assert parked == [], f"{name} has parked {parked}"
        kept = {(one.master, one.name) for one in snapshots.list_snapshots(site)}
        query = "SELECT snapshot FROM snaptide.registered_snapshot"
        registered = {
            (name, snapshot)
            for name in MASTERS
            for (snapshot,) in run(self.sites[name], query)
        }
        assert registered == kept, f"{registered=} {kept=}"
        master = master_of(site)
        routes = run(site, "SELECT DISTINCT destination FROM snaptide.route")
        assert routes == [(master,)], f"{routes=} {master=}"
        ways = run(site, "SELECT DISTINCT synchronous FROM snaptide.queue")
        assert ways == [(is_synchronous(site),)], f"{ways=}"


def _has_name(error: BaseException) -> bool:
    """Whether an error says what was refused, or that a session was lost."""
    if isinstance(error, DBAPIError):
        return isinstance(error.orig, psycopg.OperationalError)
    return isinstance(error, SnaptideError | psycopg.OperationalError)
