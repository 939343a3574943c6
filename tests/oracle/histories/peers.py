"""A world of masters without rules: what meets is parked, decided upon, and listed.

Rows may differ between masters when it is quiet, but not in silence: an error queue
holds a change of the row, or the list of rows that may differ names it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import deferred
import groups
from deferred.errors import NoSuchError, PushInterrupted
from deferred.parked import differing
from deferred.pushing.push import destinations
from groups.errors import CannotDrain
from sites import Directory
from sites.faults import InjectedFault
from tests.linked_table import run
from tests.oracle.histories.acts import Pen, Statement, delete, insert, update
from tests.oracle.histories.ledger import Rows
from tests.oracle.histories.users import Refusal, Users
from tests.oracle.histories.world import url
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.played import Violation
from tests.oracle.story import Story

GROUP = "peers"
MASTERS = ("a", "b", "c")
TABLES = ("parent", "child", "part")
ROUNDS = 8
ACTIONS = ("CASCADE", "SET NULL", "NO ACTION", "RESTRICT")
#: Shapes of this kind of world.
SHAPES = frozenset(
    {
        *(f"masters: on delete {one.lower()}" for one in ACTIONS),
        *(
            f"masters: {what}"
            for what in (
                "delete",
                "key change",
                "parked",
                "retried",
                "retried in vain",
                "edited",
                "deleted",
                "swapped names",
                "statement on a partition",
                "push broken off",
            )
        ),
    }
)
_SWAP = " ".join(
    f"ALTER TABLE parent RENAME {old} TO {new};"
    for old, new in (("note", "c"), ("more", "note"), ("c", "more"))
)
#: The partition of some masters has its columns in another order.
_PARTS = (
    "CREATE TABLE part_low PARTITION OF part FOR VALUES FROM (0) TO (1000000)",
    (
        "CREATE TABLE part_low (note text, uid text NOT NULL, gone int,"
        " h int NOT NULL, id int NOT NULL);"
        " ALTER TABLE part_low DROP gone;"
        " ALTER TABLE part ATTACH PARTITION part_low FOR VALUES FROM (0) TO (1000000)"
    ),
)


def _ddl(action: str, part: str) -> Iterator[str]:
    yield (
        "CREATE TABLE parent (id int PRIMARY KEY, h int NOT NULL, uid text NOT NULL,"
        " code text UNIQUE, note text, more text)"
    )
    yield (
        "CREATE TABLE child (id int PRIMARY KEY, h int NOT NULL, uid text NOT NULL,"
        f" parent_id int REFERENCES parent ON DELETE {action} ON UPDATE CASCADE,"
        " note text)"
    )
    yield (
        "CREATE TABLE part (id int PRIMARY KEY, h int NOT NULL, uid text NOT NULL,"
        " note text) PARTITION BY RANGE (id)"
    )
    yield part
    yield "CREATE TABLE receipt (id text PRIMARY KEY, site text NOT NULL)"


#: A row by its table and key.
_Key = tuple[str, str]


@dataclass
class PeersWorld:
    """Three masters whose users write the same few rows, and operators.

    Parameters:
        chance: draws what concerns all histories.
        pens: by history, what draws for it alone.
    """

    sites: Directory
    chance: Random
    pens: Mapping[int, Pen]
    story: Story
    met: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    users: Users = field(init=False)
    #: receipts by history
    receipts: list[tuple[int, str]] = field(default_factory=list)
    #: the second master sends on what it gets, unless it has parked it
    _forwards: bool = False

    def play(self) -> list[Violation]:
        """Build it, play all histories, and judge them."""
        self._build()
        urls = {one.name: url(self.sites, one.name) for one in self.sites.values()}
        self.users = Users(urls, TABLES, {}, self.story)
        try:
            for number in range(ROUNDS):
                if number and self.chance.random() < 0.25:
                    self._swap()
                for pen in self.pens.values():
                    for _ in range(pen.chance.randint(0, 3)):
                        self._act(pen)
                for name in self.chance.sample(MASTERS, 2):
                    self._push(name, self.chance.choice((0, 0, 0, 3, 9)))
                for name in MASTERS:
                    self._operate(name)
            self._push_all()
            return [*self._judged()]
        finally:
            self.users.close()

    def _build(self) -> None:
        action = self.chance.choice(ACTIONS)
        parts = [self.chance.choice(_PARTS) for _ in MASTERS]
        self.story.tell(f"on delete {action.lower()}; {parts}")
        self._all_met(f"masters: on delete {action.lower()}")
        for name, part in zip(MASTERS, parts, strict=True):
            run(self.sites[name], *_ddl(action, part))
        home = self.sites["a"]
        groups.create_group(home, GROUP)
        for table in (*TABLES, "receipt"):
            groups.add_table(home, GROUP, table)
        for name in MASTERS[1:]:
            groups.add_master(home, GROUP, name)
        self._forwards = self.chance.random() < 0.5
        groups.set_paths(
            home, GROUP, groups.chain if self._forwards else groups.full_mesh
        )
        run(home, *(s.as_string() for h in self.pens for s in _first(h)))
        self._push_all()

    # --- what happens -------------------------------------------------------------

    def _act(self, pen: Pen) -> None:
        who, met = pen.chance.choice(MASTERS), self.met[pen.history]
        what = pen.chance.choice(_ACTS)
        leaf = pen.chance.random() < 0.5

        def write(rows: Rows) -> Sequence[Statement]:
            pen.rows = rows
            return _statements(pen, what, leaf=leaf)

        done, _ = self.users.write(who, pen.history, write)
        if isinstance(done, Refusal) or not done.effect:
            return
        self.receipts.append((pen.history, done.receipt))
        if what in ("delete", "key change"):
            met.add(f"masters: {what}")
        if leaf and any(table == "part" for table, _ in done.effect):
            met.add("masters: statement on a partition")

    def _swap(self) -> None:
        """Two columns exchange their names, while the group is closed to users."""
        home = self.sites["a"]
        self.story.tell("note and more swap their names")
        self.users.close()
        try:
            groups.suspend(home, GROUP)
            groups.execute_ddl(home, GROUP, _SWAP)
            self._all_met("masters: swapped names")
        except CannotDrain as error:
            self.story.tell(f"  {error}")
        groups.resume(home, GROUP)

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
                self._all_met("masters: push broken off")
        return moved

    def _push_all(self) -> None:
        while sum(self._push(name) for name in MASTERS):
            pass

    def _operate(self, name: str) -> None:
        """Somebody decides about parked transactions of a master, or not yet."""
        master = self.sites[name]
        for error in deferred.list_errors(master):
            with suppress(NoSuchError):  # gone with one that it waited for
                calls = deferred.show_error(master, error.id).calls
                self._decide(name, error.id, calls)

    def _decide(
        self, name: str, number: int, calls: Sequence[deferred.ErrorCall]
    ) -> None:
        history = _history(calls)
        pen, met = self.pens[history], self.met[history]
        met.add("masters: parked")
        what = pen.chance.choice(("", "", "retry", "retry", "edit", "delete"))
        if not what:
            return
        self.story.tell(f"{name}: {what} {number}")
        if what == "delete":
            deferred.delete_errors(self.sites[name], [number])
            met.add("masters: deleted")
            return
        edits = _edits(calls, pen) if what == "edit" else []
        [report] = deferred.retry_errors(self.sites[name], [number], edits=edits)
        self.story.tell(f"  {report}")
        done = "edited" if edits else "retried"
        met.add(f"masters: {done if report.applied else 'retried in vain'}")

    def _all_met(self, what: str) -> None:
        for history in self.pens:
            self.met[history].add(what)

    # --- what must be true --------------------------------------------------------

    def _judged(self) -> Iterator[Violation]:
        told = {name: self._told(name) for name in MASTERS}
        every = set().union(*told.values())
        for name in MASTERS:
            yield from self._arrivals(name, every if self._forwards else told[name])
        for history in self.pens:
            yield from self._rows(history, every)

    def _told(self, name: str) -> set[_Key]:
        """Rows that an error queue or the list of a master names; ("t", "*") is all."""
        master = self.sites[name]
        found: set[_Key] = set()
        for error in deferred.list_errors(master):
            for call in deferred.show_error(master, error.id).calls:
                images = [image for image in (call.old, call.new) if image]
                table = call.table.rpartition(".")[2]
                found |= {(table, str(image["id"])) for image in images}
        with master.session() as connection:
            listed = differing.listed(connection)
        found |= {
            (one.table.name, str(one.key["id"]) if one.key else "*") for one in listed
        }
        return found

    def _arrivals(self, name: str, told: set[_Key]) -> Iterator[Violation]:
        there = Counter(
            str(i) for (i,) in run(self.sites[name], "SELECT id FROM receipt")
        )
        for history, receipt in self.receipts:
            known = {("receipt", receipt), ("receipt", "*")} & told
            if not there[receipt] and not known:
                yield Violation(history, f"{receipt} is not at {name}: nobody was told")

    def _rows(self, history: int, told: set[_Key]) -> Iterator[Violation]:
        """By key: one that is edited may bring a row again under its token."""
        rows = {
            name: {
                (table, str(row["id"])): row
                for (table, _), row in self.users.rows(name, history).items()
            }
            for name in MASTERS
        }
        for key in sorted({key for some in rows.values() for key in some}):
            images = {name: some.get(key) for name, some in rows.items()}
            known = {key, (key[0], "*")} & told
            if any(one != images["a"] for one in images.values()) and not known:
                yield Violation(history, f"{key}: nobody was told of {images}")


_ACTS = ("insert", "update", "update", "delete", "key change", "point", "code")


def _statements(pen: Pen, what: str, *, leaf: bool) -> list[Statement]:
    table = pen.chance.choice(TABLES)
    name = "part_low" if table == "part" and leaf else table
    there, free, token = pen.there(table), pen.free(table), pen.token()
    parent, code = pen.there("parent"), pen.code()
    column = pen.chance.choice(("note", "more")) if table == "parent" else "note"
    common = {"id": free, "h": pen.history, "uid": token}
    match what:
        case "insert" if table == "parent":
            return [insert(name, code=code, note=f"n{token}", **common)]
        case "insert" if table == "child":
            return [insert(name, parent_id=parent, note=token, **common)]
        case "insert":
            return [insert(name, note=token, **common)]
        case "delete":
            return [delete(name, there)]
        case "key change":
            return [update(name, there, id=free)]
        case "point":
            return [update("child", pen.there("child"), parent_id=parent)]
        case "code":
            return [update("parent", parent, code=code)]
    return [update(name, there, **{column: f"{column[0]}{token}"})]


def _first(history: int) -> list[Statement]:
    """The rows that a history begins with."""
    key, made = history * 10, []
    for n in range(2):
        uid = f"{history}.{n}"
        common = {"id": key + n, "h": history, "uid": uid}
        made += [
            insert("parent", code=f"{history}{'AB'[n]}", note="", more="", **common),
            insert("child", parent_id=key + n, note="", **common),
            insert("part", note="", **common),
        ]
    return made


def _history(calls: Sequence[deferred.ErrorCall]) -> int:
    for call in calls:
        image = call.new or call.old or {}
        if image.get("h"):
            return int(str(image["h"]))
        if call.table.endswith("receipt"):
            return int(str(image["id"]).partition("-")[0])
    raise AssertionError(calls)


def _edits(calls: Sequence[deferred.ErrorCall], pen: Pen) -> list[deferred.Edit]:
    """A note of its own for the first row that has one."""
    for call in calls:
        if call.new is not None and "note" in call.new:
            return [deferred.Edit(call=call.call_no, column="note", value=pen.token())]
    return []
