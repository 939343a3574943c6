"""A world of masters: three of them, snapshots that are switched, clocks that jump."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from psycopg import sql

import deferred
import groups
import masters
import snapshots
from deferred.errors import PushInterrupted
from deferred.pushing.push import destinations
from groups.errors import GroupBusy
from masters import rules
from sites import Directory
from sites.faults import InjectedFault
from tests.fix_clock import Clock
from tests.linked_table import run
from tests.oracle.histories.acts import Pen, Statement, insert, update
from tests.oracle.histories.ledger import Rows
from tests.oracle.histories.users import Refusal, Users
from tests.oracle.histories.world import url
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.played import Violation
from tests.oracle.story import Story

GROUP = "sales"
MASTERS, SITES = ("a", "b", "c"), ("s", "t")
ROUNDS = 8
LAST = 4
TABLES = ("item",)
#: How far a clock jumps, in seconds: a few, past a watch, past a retention.
JUMPS = (40, -40, 400, -400, 90_000, -90_000)
#: Shapes of this kind of world.
SHAPES = frozenset(
    {"switch of master", "clock ahead", "clock behind", "join", "push broken off"}
)

_DDL = (
    (
        "CREATE TABLE item (id int PRIMARY KEY, h int NOT NULL, uid text NOT NULL,"
        " n int NOT NULL, note text, at int NOT NULL)"
    ),
    "CREATE TABLE receipt (id text PRIMARY KEY, site text NOT NULL)",
    "CREATE TABLE arrival (seq bigserial, id text)",
    (
        "CREATE FUNCTION note_arrival() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.arrival (id) VALUES (NEW.id); RETURN NULL; END'"
    ),
    (
        "CREATE TRIGGER arrival AFTER INSERT ON receipt"
        " FOR EACH ROW EXECUTE FUNCTION note_arrival()"
    ),
    "ALTER TABLE receipt ENABLE ALWAYS TRIGGER arrival",
)


@dataclass
class GroupWorld:
    """Masters that exchange changes, and two sites with snapshots of them.

    Parameters:
        chance: draws what concerns all histories.
        pens: by history, what draws for it alone.
        clock: of the server where the sites are.
    """

    sites: Directory
    chance: Random
    pens: Mapping[int, Pen]
    story: Story
    clock: Clock
    met: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    users: Users = field(init=False)
    #: receipts by history; and by row, what was added to it
    receipts: list[tuple[int, str]] = field(default_factory=list)
    added: Counter[tuple[int, str]] = field(default_factory=Counter)
    #: the last stamp and note of each row
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)
    _moment: int = 0
    _joined: list[str] = field(default_factory=list)
    _master: dict[str, str] = field(default_factory=dict)

    def play(self) -> list[Violation]:
        """Build it, play all histories, and judge them."""
        self._joined = [*MASTERS] if self.chance.random() < 0.5 else ["a", "b"]
        self._build()
        urls = {one.name: url(self.sites, one.name) for one in self.sites.values()}
        self.users = Users(urls, TABLES, {}, self.story)
        try:
            for number in range(ROUNDS):
                self._between(number)
                for pen in self.pens.values():
                    if pen.chance.random() < 0.8:
                        self._act(pen)
                self._meanwhile()
            self._settle()
            return [*self._judged()]
        finally:
            self.users.close()
            self.clock.set(timedelta(0))

    def _build(self) -> None:
        for name in MASTERS:
            run(self.sites[name], *_DDL)
        home = self.sites["a"]
        groups.create_group(home, GROUP)
        for table in ("item", "receipt"):
            groups.add_table(home, GROUP, table)
        for name in self._joined[1:]:
            groups.add_master(home, GROUP, name)
        shape = self.chance.choice((groups.full_mesh, groups.chain))
        groups.set_paths(home, GROUP, shape)
        for name in MASTERS:
            self._prepare(name)
        run(self.sites["a"], *(s.as_string() for h in self.pens for s in _rows(h)))
        self._push_all()
        for site, master in zip(SITES, ("a", "b"), strict=True):
            for table in ("item", "receipt"):
                snapshots.create(
                    self.sites[site],
                    table,
                    master=master,
                    group="all",
                    where=f"site = '{site}'" if table == "receipt" else None,
                    updatable=True,
                )
            snapshots.refresh(self.sites[site], "all")
        self._master = dict(zip(SITES, ("a", "b"), strict=True))

    def _prepare(self, name: str) -> None:
        master = self.sites[name]
        for table in ("item", "receipt"):
            masters.create_snapshot_log(master, table)
        rules.set_column_group(master, "item", "n", ["n"])
        rules.add_update_resolution(master, "item", "n", "additive")
        rules.set_column_group(master, "item", "note", ["note", "at"])
        rules.add_update_resolution(
            master, "item", "note", "maximum", parameters={"column": "at"}
        )

    # --- what happens -------------------------------------------------------------

    def _act(self, pen: Pen) -> None:
        who = pen.chance.choice((*self._joined, *SITES, *SITES))
        self._moment += 1
        moment = self._moment
        given: list[tuple[str, int, str]] = []

        def write(rows: Rows) -> Sequence[Statement]:
            return self._statements(pen, rows, who, moment, given)

        # A master's own transactions have a receipt, too.
        done, _ = self.users.write(who, pen.history, write)
        if isinstance(done, Refusal) or not done.effect:
            return
        self.receipts.append((pen.history, done.receipt))
        self.met[pen.history].add("change at a master" if who in MASTERS else "change")
        for uid, more, note in given:
            self.added[pen.history, uid] += more
            if note:
                self.newest[uid] = (moment, note)

    def _statements(
        self,
        pen: Pen,
        rows: Rows,
        who: str,
        moment: int,
        given: list[tuple[str, int, str]],
    ) -> list[Statement]:
        pen.rows = rows
        made: list[Statement] = []
        for _ in range(pen.chance.randint(1, 2)):
            key, drawn, more = (
                pen.there("item"),
                pen.chance.random(),
                pen.chance.randint(1, 9),
            )
            uids = [r["uid"] for r in rows.values() if r["id"] == key]
            note = pen.token()
            place = (*MASTERS, *SITES).index(who)
            if not uids or drawn < 0.15:
                new = 100_000 + pen.history * 100 + 10 * place + pen.chance.randrange(9)
                if any(r["id"] == new for r in rows.values()) or made:
                    continue
                uid = f"{note}.new"
                given.append((uid, more, note))
                made.append(
                    insert(
                        "item",
                        id=new,
                        h=pen.history,
                        uid=uid,
                        n=more,
                        note=note,
                        at=moment,
                    )
                )
            elif drawn < 0.6:
                given.append((uids[0], more, ""))
                made.append(_add(key, more))
            else:
                given.append((uids[0], 0, note))
                made.append(update("item", key, note=note, at=moment))
        return made

    def _between(self, number: int) -> None:
        drawn, where = [self.chance.random() for _ in range(3)], self.chance.random()
        seconds = self.chance.choice(JUMPS)
        to = self._joined[int(where * len(self._joined))]
        site = SITES[number % 2]
        if drawn[0] < 0.4:
            what = "clock ahead" if seconds > 0 else "clock behind"
            self.story.tell(f"the sites' clock is {seconds} s off")
            self.clock.set(timedelta(seconds=seconds))
            self._all_met(what)
        elif drawn[0] < 0.6:
            self.clock.set(timedelta(0))
        if number and drawn[1] < 0.4:
            self._switch(site, to)
        if drawn[2] < 0.3 and number > 2 and "c" not in self._joined:
            self._join()

    def _switch(self, site: str, to: str) -> None:
        if self._master[site] == to:
            return
        self.story.tell(f"{site} is switched from {self._master[site]} to {to}")
        report = groups.switch_master(self.sites[site], "all", to=to)
        self.story.tell(f"  {report}")
        self._master[site] = to
        self._all_met("switch of master")

    def _join(self) -> None:
        self.story.tell("c joins")
        with suppress(GroupBusy):
            self.story.tell(f"  {groups.join_master(self.sites['a'], GROUP, 'c')}")
            self._joined.append("c")
            self._all_met("join")

    def _meanwhile(self) -> None:
        for name in self.chance.sample((*self._joined, *SITES), 2 + len(self._joined)):
            drawn, at = self.chance.random(), self.chance.randint(1, 15)
            fails = self.chance.random() < 0.2
            if drawn < 0.6:
                self._push(name, at if fails else 0)
            elif drawn < 0.75 and name in SITES:
                self._refresh(name)

    def _push(self, name: str, at: int = 0) -> int:
        moved = 0
        for to in destinations(self.sites[name]):
            self.story.tell(f"push {name} to {to}" + (f", fails at {at}" if at else ""))
            if not at:
                report = deferred.push(self.sites[name], to)
                self.story.tell(f"  {report}")
                moved += report.transactions
                continue
            with (
                at_nth_point(at, lambda: None, fails=True) as moment,
                suppress(InjectedFault, PushInterrupted),
            ):
                deferred.push(self.sites[name], to)
            if moment.point:
                self.story.tell(f"  broken off at {moment.point}")
                self._all_met("push broken off")
        return moved

    def _refresh(self, site: str) -> None:
        self.story.tell(f"refresh {site}")
        snapshots.refresh(
            self.sites[site], "all", push_deferred_rpc=False, allow_mass_delete=True
        )

    def _push_all(self) -> None:
        while sum(self._push(name) for name in self._joined):
            pass

    def _settle(self) -> None:
        self.story.tell("quiet")
        for _ in range(LAST):
            for site in SITES:
                self._push(site)
            self._push_all()
            for site in SITES:
                self._refresh(site)

    def _all_met(self, what: str) -> None:
        for history in self.pens:
            self.met[history].add(what)

    # --- what must be true --------------------------------------------------------

    def _judged(self) -> list[Violation]:
        found = []
        for name in self._joined:
            errors = deferred.list_errors(self.sites[name])
            found += [Violation(0, f"{name} has parked {error}") for error in errors]
            found += self._arrivals(name)
        for history in self.pens:
            found += self._rows(history)
        return found

    def _arrivals(self, name: str) -> list[Violation]:
        """Each transaction is at each master once; or it was copied there."""
        arrived = Counter(
            str(i) for (i,) in run(self.sites[name], "SELECT id FROM arrival")
        )
        there = {str(i) for (i,) in run(self.sites[name], "SELECT id FROM receipt")}
        return [
            Violation(history, f"{receipt} came {arrived[receipt]} times to {name}")
            for history, receipt in self.receipts
            if receipt not in there or arrived[receipt] > 1
        ]

    def _rows(self, history: int) -> list[Violation]:
        first = self.users.rows("a", history)
        written = {uid for (one, uid) in self.added if one == history}
        there = {uid for _, uid in first}
        found = [f"{uid} is not there" for uid in sorted(written - there)]
        for (_, uid), row in first.items():
            n, newest = self.added[history, uid], self.newest.get(uid)
            if row["n"] != n:
                found.append(f"{uid} has {row['n']}, though {n} were added")
            if newest and (row["at"], row["note"]) != newest:
                found.append(f"{uid} says {row['note']}, not {newest}")
        for name in (*self._joined[1:], *SITES):
            rows = self.users.rows(name, history)
            found += [
                f"{name} has {rows.get(place)}, a {first.get(place)}"
                for place in sorted({*first, *rows})
                if rows.get(place) != first.get(place)
            ]
        return [Violation(history, what) for what in found]


def _add(key: int, more: int) -> Statement:
    return sql.SQL("UPDATE item SET n = n + {} WHERE id = {}").format(
        sql.Literal(more), sql.Literal(key)
    )


def _rows(history: int) -> list[Statement]:
    return [
        insert(
            "item",
            id=history * 10 + n,
            h=history,
            uid=f"{history}.item{n}",
            n=0,
            note="",
            at=0,
        )
        for n in range(3)
    ]
