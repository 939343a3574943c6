"""A world of columns: tables are altered while changes are on their way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from psycopg.errors import LockNotAvailable

import deferred
import masters
import snapshots
from deferred.errors import TargetColumnsMoved
from sites.errors import SnaptideError
from snapshots.reports import RefreshReport
from tests.fix_sites import unarmed
from tests.linked_table import run
from tests.oracle.histories import tables
from tests.oracle.histories.acts import Pen, Statement, delete, insert, update
from tests.oracle.histories.ledger import Deed, Rows
from tests.oracle.histories.users import Refusal
from tests.oracle.histories.world import SITES, World
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.played import Violation

TABLES = ("wide", "parts")
#: How many histories have their rows in one partition.
LEAF = 10

_FIRST = (
    (
        "CREATE TABLE wide (id int PRIMARY KEY, spare int, h int NOT NULL,"
        " uid text NOT NULL, a text, b text, n int, price numeric(10, 4))"
    ),
    (
        "CREATE TABLE parts (id int NOT NULL, h int NOT NULL, uid text NOT NULL,"
        " a text, b text, PRIMARY KEY (id)) PARTITION BY RANGE (id)"
    ),
)

#: DDL of `wide` by name: what was done, and what undoes it where it is done again.
_SWAP = (
    "ALTER TABLE wide RENAME a TO c",
    "ALTER TABLE wide RENAME b TO a",
    "ALTER TABLE wide RENAME c TO b",
)
ALTERED: Mapping[str, tuple[str, ...]] = {
    "type using": (
        "ALTER TABLE wide DROP IF EXISTS v",
        "ALTER TABLE wide ALTER n TYPE int USING n + 1",
    ),
    "narrower numeric": ("ALTER TABLE wide ALTER price TYPE numeric(10, 2)",),
    "dropped and added": (
        "ALTER TABLE wide DROP b",
        "ALTER TABLE wide ADD b text DEFAULT 'new'",
    ),
    "swapped names": _SWAP,
    "column added": ("ALTER TABLE wide ADD IF NOT EXISTS added int DEFAULT 7",),
    "column dropped": (
        "ALTER TABLE wide DROP IF EXISTS added",
        "ALTER TABLE wide DROP IF EXISTS spare",
    ),
    "virtual column": (
        "ALTER TABLE wide DROP IF EXISTS v",
        "ALTER TABLE wide ADD v int GENERATED ALWAYS AS (n * 2) VIRTUAL",
    ),
    "virtual column dropped": ("ALTER TABLE wide DROP IF EXISTS v",),
    "partition detached": (),
    "renamed": (),
    "dropped": (),
    "split by a lens": (),
    "for sites": (
        "ALTER TABLE wide ADD brought text DEFAULT 'new'",
        "ALTER TABLE wide RENAME brought TO called",
        "ALTER TABLE wide DROP called",
    ),
}


@dataclass
class ColumnsWorld(World):
    """A master whose tables change their columns and partitions, and two sites."""

    tables: ClassVar = TABLES
    free: ClassVar = {
        "wide": {"v", "added", "spare", "brought", "called", "old_b", "digest"}
    }

    def __post_init__(self) -> None:
        #: by partition, whether it is attached; and what is away under another name
        self._leaves: dict[int, bool] = {}
        #: Snaptide's user may create an event trigger
        self._armed = self.chance.random() < 0.5
        #: what gives a column its name again, or comes in the place of one that is gone
        self._undo: tuple[str, ...] = ()
        self._for_sites_done = 0
        self._split = False
        self._at_site = dict.fromkeys(SITES, False)
        #: numbers of changes of the master, and what columns of `wide` are called then
        self._called: list[tuple[int, dict[int, str]]] = []
        #: by receipt, the numbers of the columns that the site has shown
        self._shown: dict[str, dict[str, int]] = {}
        #: receipts of transactions that were retried without values of gone columns
        self._without: set[str] = set()

    def build(self) -> None:
        """Make tables, logs and snapshots, and fill them."""
        numbers = sorted({h // LEAF for h in self.pens})
        leaves = [s for number in numbers for s in _leaf(number)]
        run(self.sites["hq"], *_FIRST, *leaves)
        run(self.sites["hq"], *tables.audit_ddl(TABLES))
        self._leaves = dict.fromkeys(numbers, True)
        run(self.sites["hq"], *(s.as_string() for h in self.pens for s in _rows(h)))
        carried = ["id", "h", "uid", "a", "b", "n", "price"]
        for table in (*TABLES, "receipt"):
            masters.create_snapshot_log(self.sites["hq"], table)
        if not self._armed:
            unarmed(self.sites["hq"])
        for name in SITES:
            for table in (*TABLES, "receipt"):
                snapshots.create(
                    self.sites[name],
                    table,
                    master="hq",
                    group="all",
                    where=f"site = '{name}'" if table == "receipt" else None,
                    columns=carried if table == "wide" else None,
                    updatable=True,
                )
            snapshots.refresh(self.sites[name], "all")

    def alter(self, what: str, statements: Sequence[str]) -> None:
        """DDL at the master; what columns are called since then."""
        if what == "for sites":
            self._for_sites()
            statements = ()
        super().alter(what, statements)
        found = run(
            self.sites["hq"],
            "SELECT attnum, attname FROM pg_attribute WHERE attnum > 0"
            " AND attrelid = 'wide'::regclass AND NOT attisdropped",
        )
        self._called.append((self.told.position(), dict(found)))

    def _for_sites(self) -> None:
        """The next of three changes, which sites follow by their next refresh."""
        # It would try longer than a story should wait for what is under way.
        run(self.sites["hq"], "SET LOCAL lock_timeout = '100ms'", "LOCK TABLE wide")
        ways = ALTERED["for sites"]
        statement = ways[self._for_sites_done % len(ways)]
        self.story.tell(f"hq: {statement}")
        masters.execute_ddl(self.sites["hq"], statement)
        self._for_sites_done += 1
        self.story.count("DDL for sites")

    def write(
        self,
        pen: Pen,
        site: str,
        statements: Callable[[Rows], Sequence[Statement]],
    ) -> tuple[Deed | Refusal, Rows]:
        """It is meant for the columns that the site shows."""
        done, before = super().write(pen, site, statements)
        if isinstance(done, Deed) and site != "hq":
            [(names, numbers)] = run(
                self.sites[site],
                "SELECT columns, target_numbers FROM snaptide.queue"
                " WHERE snapshot = 'wide'",
            )
            self._shown[done.receipt] = dict(zip(names, numbers, strict=True))
        return done, before

    def judged(self) -> list[Violation]:
        """What nobody was told of; changes are those of the columns that were meant."""
        came = dict(self.told.arrivals())
        first = dict[str, int]()
        for entry in self.told.entries():
            first.setdefault(entry.transaction, entry.number)
        for deed in self.deeds:
            number = first.get(came.get(deed.receipt, ""), 0)
            for called in [called for since, called in self._called if since < number][
                -1:
            ]:
                self._name_as_then(deed, called)
        return super().judged()

    def _name_as_then(self, deed: Deed, called: Mapping[int, str]) -> None:
        """Name the columns of a change as the master did when it came."""
        shown = self._shown[deed.receipt]
        now = {name: called.get(number) for name, number in shown.items()}
        by_name = {
            name
            for name, it in now.items()
            if it is None and name in {*called.values()} - {*now.values()}
        }
        for place, change in deed.effect.items():
            if place[0] != "wide":
                continue
            names = dict(now)
            if deed.receipt not in self._without:
                given = by_name & (change.columns if change.before else by_name)
                names |= {name: name for name in given}
                # It replaces whatever the new column had.
                deed.edited |= {(place, name) for name in given if change.before}
            if any(name != it for name, it in names.items()):
                deed.effect[place] = change.renamed(names)
                gone = None in names.values()
                self.met[deed.history].add("column gone" if gone else "by number")

    def _decided(self, what: str, number: int, deed: Deed, pen: Pen) -> None:
        """Values of a column that is gone are left out, or go to one of its name."""
        [reason] = [
            one.reason
            for one in deferred.list_errors(self.sites["hq"])
            if one.id == number
        ] or [""]
        if reason != "column gone" or what != "mend":
            super()._decided(what, number, deed, pen)
            return
        hq, since = self.sites["hq"], self.told.position()
        self.story.tell(f"without its gone columns {number}, {deed.receipt}")
        [report] = deferred.retry_errors(hq, [number], without_gone=True)
        self.story.tell(f"  {report}")
        if report.applied:
            self._without.add(deed.receipt)
            self.met[deed.history].add("retried without a column")
            for entry in self.told.entries():
                if entry.number > since and deed not in self.tried[entry.transaction]:
                    self.tried[entry.transaction].append(deed)

    def between(self, number: int) -> None:
        """Alter something, before most rounds."""
        drawn, place = self.chance.random(), self.chance.random()
        names = sorted(ALTERED)
        what = names[int(place * len(names))]
        if self._undo:
            self._back()
        elif away := [leaf for leaf, there in self._leaves.items() if not there]:
            self._move(away[0])
        elif drawn < 0.25 and number:
            self._altered("for sites", place)
        elif drawn < 0.8 and number:
            self._altered(what, place)
        if drawn > 0.6:
            self._alter_site(SITES[number % 2])

    def _meanwhile(self, site: str) -> None:
        """A table may be altered while a site is pushed or refreshed."""
        drawn, nth = self.chance.random(), self.chance.randint(1, 25)
        names = sorted(name for name, statements in ALTERED.items() if statements)
        what = self.chance.choice([*names, *["swapped names"] * len(names)])
        if drawn > 0.4 or self._undo:
            super()._meanwhile(site)
            return
        with at_nth_point(nth, lambda: self._alter_meanwhile(what)) as moment:
            super()._meanwhile(site)
        if moment.point is not None:
            self.story.tell(f"  {what} at {moment.point}")

    def _alter_meanwhile(self, what: str) -> None:
        """Alter a table, unless what is under way there has locked it."""
        try:
            self.alter(what, ("SET LOCAL lock_timeout = '100ms'", *ALTERED[what]))
        except LockNotAvailable:
            return
        for history in self.pens:
            self.met[history] |= {what, "DDL in the middle"}

    def _altered(self, what: str, place: float) -> None:
        if what == "partition detached":
            chosen = sorted(self._leaves)[int(place * 97) % len(self._leaves)]
            self._move(chosen)
        elif what == "renamed":
            self.alter(what, ("ALTER TABLE wide RENAME a TO old_a",))
            self._undo = ("ALTER TABLE wide RENAME old_a TO a",)
        elif what == "dropped":
            self.alter(what, ("ALTER TABLE wide DROP b",))
            self._undo = ("ALTER TABLE wide ADD b text DEFAULT 'new'",)
        elif what == "split by a lens":
            self._split_by_lens(what)
        else:
            self.alter(what, ALTERED[what])
        for history in self.pens:
            self.met[history].add(what)

    def _split_by_lens(self, what: str) -> None:
        """Two columns take the place of one, once; one of them gets its name."""
        if self._split:
            return
        self._split = True
        steps = (
            "ALTER TABLE wide RENAME b TO old_b",
            "ALTER TABLE wide ADD b text, ADD digest text",
            "UPDATE wide SET b = old_b, digest = md5(old_b)",
        )
        self.alter(what, steps)
        snapshots.map_shape(
            self.sites["hq"],
            "wide",
            gone=["old_b"],
            sets={"b": "old_b", "digest": "md5(old_b)"},
            backs={"old_b": "b"},
        )
        self.alter(what, ("ALTER TABLE wide DROP old_b",))

    def _back(self) -> None:
        """The sites find all columns that they know under their names again."""
        self.alter("back", self._undo)
        self._undo = ()

    def _move(self, number: int) -> None:
        leaf = f"parts_{number}"
        note = (
            "INSERT INTO audit (xid, tab, {}) SELECT pg_current_xact_id()::text,"
            f" 'parts', jsonb_build_object('id', t.id, 'h', t.h, 'uid', t.uid,"
            f" 'a', t.a, 'b', t.b) FROM {leaf} t"
        )
        attached = self._leaves[number] = not self._leaves[number]
        # As a partition that users have made meanwhile has none.
        bare = attached and self.chance.random() < 0.5
        if bare:
            what = "armed at once" if self._armed else "attached without triggers"
            for history in self.pens:
                self.met[history].add(f"partition {what}")
        self.story.tell(f"hq: {leaf} is {'attached' if attached else 'detached'}")
        run(
            self.sites["hq"],
            note.format("new" if attached else "old"),
            *(
                f"DROP TRIGGER snaptide_mlog_{event} ON {leaf}"
                for event in ("insert", "update", "delete", "truncate")
                if bare
            ),
            _attach(number)
            if attached
            else f"ALTER TABLE parts DETACH PARTITION {leaf}",
            # A partition that leaves takes the trigger of its parent along no more.
            *([] if attached else [f"DROP TRIGGER IF EXISTS zz_audit ON {leaf}"]),
        )
        self.mine()

    def _alter_site(self, site: str) -> None:
        """A column of a site's own comes or goes."""
        there = self._at_site[site]
        self._at_site[site] = not there
        what = "DROP mine" if there else "ADD mine int GENERATED ALWAYS AS (n + 1)"
        self.story.tell(f"{site}: {what}")
        kind = "" if there else " VIRTUAL"
        run(self.sites[site], f'ALTER TABLE "snap$_wide" {what}{kind}')
        for history in self.pens:
            self.met[history].add("virtual column of a site")

    def refresh(self, site: str, method: str = "?") -> RefreshReport | None:
        """A snapshot may stay behind while a column that it carries is away.

        Or while changes wait that were made for other columns. It is refused if none
        could be refreshed.
        """
        try:
            report = super().refresh(site, method)
        except SnaptideError as error:
            self.story.tell(f"  {error.code} {error}")
            if not self._undo and not isinstance(error, TargetColumnsMoved):
                raise
            self.story.count(f"refused by {type(error).__name__}")
            return None
        assert report is not None
        moved = [one.code == TargetColumnsMoved.code for one in report.behind]
        assert self._undo or all(moved), report.behind
        return report

    def _mend(self, number: int, pen: Pen) -> None:
        """Nobody knows what to write while a column is away."""
        if not self._undo:
            super()._mend(number, pen)

    def settle(self) -> None:
        """Give columns their names, and partitions their place, before it is quiet."""
        if self._undo:
            self._back()
        super().settle()

    def act(self, pen: Pen) -> None:
        """A row of one of the tables comes, goes, or changes."""
        site = pen.chance.choice(("hq", "jfk", "jfk", "lga", "lga"))
        drawn = [pen.chance.random() for _ in range(2)]
        table = TABLES[drawn[0] < 0.5]
        where = table
        leaf = pen.history // LEAF
        if site == "hq" and table == "parts" and drawn[1] < 0.6 and self._leaves[leaf]:
            where = f"parts_{leaf}"
            self.met[pen.history].add("statement on a partition")
        if table == "parts" and not self._leaves[leaf]:
            return
        if site == "hq" and self._undo and table == "wide":
            return
        done, _ = self.write(
            pen, site, lambda rows: _statements(pen, table, where, rows)
        )
        if not isinstance(done, Refusal) and done.effect:
            self.met[pen.history].add(f"change of {table}")
            if any(c.before and "id" in c.columns for c in done.effect.values()):
                self.met[pen.history].add("key change")


def _statements(pen: Pen, table: str, where: str, rows: Rows) -> list[Statement]:
    pen.rows = rows
    columns = ("a", "b", "n", "price") if table == "wide" else ("a", "b")
    column = pen.chance.choice(columns)
    value: object = f"{column}:{pen.token()}"
    if column == "n":
        value = pen.chance.randrange(1000)
    elif column == "price":
        value = _price(pen)
    match pen.chance.choice(("insert", "update", "update", "update", "delete", "key")):
        case "insert":
            more = {"n": 1, "price": 2} if table == "wide" else {}
            given = {"a": f"a:{pen.token()}", "b": f"b:{pen.token()}", **more}
            uid = pen.token()
            return [insert(where, id=pen.free(table), h=pen.history, uid=uid, **given)]
        case "update":
            return [update(where, pen.there(table), **{column: value})]
        case "delete":
            return [delete(where, pen.there(table))]
    return [update(where, pen.there(table), id=pen.free(table))]


def _price(pen: Pen) -> Decimal:
    """A number, which may have more digits than the master's column has by now."""
    digits = pen.chance.choice((0, 2, 4, 4))
    return Decimal(pen.chance.randrange(10**6)).scaleb(-digits)


def _rows(history: int) -> list[Statement]:
    """The rows that a history begins with."""
    made = []
    for n in range(3):
        for table in TABLES:
            more = {"n": n, "price": 1} if table == "wide" else {}
            uid = f"{history}.{table}{n}"
            given = {"h": history, "uid": uid, "a": f"a:{uid}", "b": f"b:{uid}"}
            made.append(insert(table, id=history * 10 + n, **given, **more))
    return made


def _leaf(number: int) -> tuple[str, ...]:
    """A partition; every other one has its columns in another order."""
    if number % 2:
        low, high = number * LEAF * 10, (number + 1) * LEAF * 10
        return (
            (
                f"CREATE TABLE parts_{number} PARTITION OF parts"
                f" FOR VALUES FROM ({low}) TO ({high})"
            ),
        )
    return (
        (
            f"CREATE TABLE parts_{number} (b text, gone int, uid text NOT NULL,"
            " h int NOT NULL, a text, id int NOT NULL)"
        ),
        f"ALTER TABLE parts_{number} DROP gone",
        _attach(number),
    )


def _attach(number: int) -> str:
    low, high = number * LEAF * 10, (number + 1) * LEAF * 10
    return (
        f"ALTER TABLE parts ATTACH PARTITION parts_{number}"
        f" FOR VALUES FROM ({low}) TO ({high})"
    )
