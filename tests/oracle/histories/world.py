"""A world: a master and two sites, users, pushes, refreshes, operators, a judge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

import psycopg

import deferred
import masters
import snapshots
from deferred.errors import NoSuchError
from sites import Directory
from sites.faults import InjectedFault
from snapshots.reports import RefreshReport
from tests.linked_table import run
from tests.oracle.histories.acts import Pen, Statement, delete, update
from tests.oracle.histories.judge import Judge
from tests.oracle.histories.ledger import Deed, Place, References, Row, Rows, placed
from tests.oracle.histories.told import Told
from tests.oracle.histories.users import Refusal, Users
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.played import Violation
from tests.oracle.story import Story

SITES = ("jfk", "lga")
ROUNDS = 8
#: How often everything is pushed and refreshed before all must agree.
LAST = 4


@dataclass
class World(ABC):
    """The sites, and what happens there.

    Parameters:
        chance: draws what concerns all histories.
        pens: by history, what draws for it alone.
    """

    sites: Directory
    chance: Random
    pens: Mapping[int, Pen]
    story: Story
    met: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    deeds: list[Deed] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    #: those of them that have changed definitions
    altered: set[str] = field(default_factory=set)
    #: those of them that have made rows what a parked transaction expects
    mended: set[str] = field(default_factory=set)
    tried: defaultdict[str, list[Deed]] = field(
        default_factory=lambda: defaultdict(list)
    )
    users: Users = field(init=False)
    told: Told = field(init=False)
    references: References = field(init=False, default_factory=dict)

    tables: ClassVar[Sequence[str]]
    free: ClassVar[Mapping[str, set[str]]] = {}
    error_action = "queue"

    @abstractmethod
    def build(self) -> None:
        """Make tables, logs, rules, snapshots, and fill them."""

    @abstractmethod
    def act(self, pen: Pen) -> None:
        """What a user of one history does."""

    @abstractmethod
    def between(self, number: int) -> None:
        """What happens to all before a round."""

    def seen(self, table: str, row: Row) -> Row:
        """A row as the judge compares it: a value is the same whatever shows it."""
        return row

    def alter(self, what: str, statements: Sequence[str]) -> None:
        """DDL at the master, and what the judge has to know of rows it has changed."""
        self.story.tell(f"hq: {what}")
        note = (
            "INSERT INTO audit (xid, tab, new) SELECT pg_current_xact_id()::text,"
            " '{0}', to_jsonb(t) FROM {0} t"
        )
        run(self.sites["hq"], *statements, *(note.format(t) for t in self.tables))
        self.mine()
        # What a session has planned for a trigger of its users fits the old types.
        self.users.close()

    def mine(self) -> None:
        """What has changed rows of the master last was no user of a history."""
        found = run(self.sites["hq"], "SELECT xid FROM audit ORDER BY seq DESC LIMIT 1")
        self.own |= {str(x) for (x,) in found}
        self.altered |= {str(x) for (x,) in found}

    def play(self) -> list[Violation]:
        """Build it, play all histories, and judge them."""
        self.build()
        self.own |= {str(x) for (x,) in run(self.sites["hq"], "SELECT xid FROM audit")}
        urls = {s.name: url(self.sites, s.name) for s in self.sites.values()}
        parts = self.tables, self.references, self.story
        self.users = Users(urls, *parts, seen=self.seen)
        try:
            with psycopg.connect(urls["hq"], client_encoding="utf8") as session:
                self.told = Told(session, seen=self.seen)
                return self._played()
        finally:
            self.users.close()

    def _played(self) -> list[Violation]:
        for number in range(ROUNDS):
            self.between(number)
            for pen in self.pens.values():
                if pen.chance.random() < 0.8:
                    self.act(pen)
            for site in SITES:
                self._meanwhile(site)
            for error in self.told.look():
                self._operate(*error)
        self.settle()
        return [*self.judged(), *self._compared()]

    # --- users --------------------------------------------------------------------

    def write(
        self,
        pen: Pen,
        site: str,
        statements: Callable[[Rows], Sequence[Statement]],
    ) -> tuple[Deed | Refusal, Rows]:
        """A transaction of a user, noted if it changed anything."""
        done, before = self.users.write(site, pen.history, statements)
        if isinstance(done, Deed) and done.effect:
            if site == "hq":
                self.own.add(done.transaction)
            else:
                self.deeds.append(done)
        return done, before

    # --- Snaptide and its operators -----------------------------------------------

    def _meanwhile(self, site: str) -> None:
        drawn = [self.chance.random() for _ in range(4)]
        at, grouped = self.chance.randint(1, 12), self.chance.choice((0, 4, 10_000))
        if drawn[0] < 0.6:
            if drawn[1] < 0.2:
                self._broken(site, at)
            self.push(site, group_max_calls=grouped)
        if drawn[2] < 0.4:
            self.refresh(site)
        if drawn[3] < 0.1:
            deferred.purge(self.sites[site])
            masters.purge_snapshot_logs(self.sites["hq"])

    def push(self, site: str, *, group_max_calls: int = 10_000) -> None:
        """Push a site."""
        self.story.tell(f"push {site} {group_max_calls}")
        report = deferred.push(
            self.sites[site],
            error_action=self.error_action,
            group_max_calls=group_max_calls,
        )
        self.story.tell(f"  {report}")
        self.story.count("transactions pushed", report.transactions)
        self.story.count("transactions parked", report.errors)
        self.story.count("conflicts resolved", report.conflicts_resolved)
        self.told.look()

    def _broken(self, site: str, at: int) -> None:
        """A push that ends at a fault point."""
        with at_nth_point(at, lambda: None, fails=True) as moment:
            try:
                self.push(site)
            except InjectedFault:
                self.story.count(f"push broken off at {moment.point}")
                for history in self.pens:
                    self.met[history].add("a push broken off")

    def refresh(self, site: str, method: str = "?") -> RefreshReport | None:
        """Refresh all that a site has; None if that was refused."""
        self.story.tell(f"refresh {site} {method}")
        report = snapshots.refresh(
            self.sites[site],
            "all",
            method=method,
            push_deferred_rpc=False,
            allow_mass_delete=True,
        )
        for one in report.snapshots:
            self.story.tell(f"  {one}")
            self.story.count(f"refreshed {one.method}")
            self.story.count("rows held back", one.held_back)
        for left in report.behind:
            self.story.tell(f"  {left}")
            self.story.count(f"left behind by {left.code}")
        return report

    def _operate(self, number: int, origin: str, transaction: str) -> None:
        """Somebody decides about a parked transaction, or not yet."""
        deed = self._deed(origin, transaction)
        if deed is None:
            return
        met = self.met[deed.history]
        self._count_parked(deed)
        if self.error_action == "skip_row":
            met.add("skipped")
        pen = self.pens[deed.history]
        what = pen.chance.choice(
            ("", "", "retry", "mend", "mend", "mend", "edit", "delete")
        )
        try:
            self._decided(what, number, deed, pen)
        except NoSuchError:  # gone with one that it waited for
            return

    def _count_parked(self, deed: Deed, then: str = "") -> None:
        """Count what becomes of a parked transaction, and of a parked parent."""
        met, named = self.met[deed.history], (deed.site, deed.transaction)
        met.add(f"parked{then}")
        if named in self.told.dependants:
            met.add("parked dependant")
        parents = {t for to in self.references.values() for t, _ in to.values()}
        rows = self.told.parked_rows
        if any(row[:2] == named and row[2] in parents for row in rows):
            met.add(f"parked parent{then}")

    def _decided(self, what: str, number: int, deed: Deed, pen: Pen) -> None:
        if not what:
            return
        if what == "mend":
            self._mend(number, pen)
        hq, since = self.sites["hq"], self.told.position()
        self.story.tell(f"{what} {number}, {deed.site}'s {deed.receipt}")
        if what == "delete":
            deferred.delete_errors(hq, [number])
            deed.given_up = True
            self._count_parked(deed, ", then deleted")
            return
        edits = self._edits(number, deed, pen) if what == "edit" else []
        [report] = deferred.retry_errors(hq, [number], edits=[e for e, _ in edits])
        self.story.tell(f"  {report}")
        if report.applied:
            self._count_parked(deed, f", then {'edited' if edits else 'retried'}")
            deed.edited |= {place for _, place in edits}
            since_then = (e for e in self.told.entries() if e.number > since)
            for transaction in {entry.transaction for entry in since_then}:
                self.tried[transaction].append(deed)
        else:
            self._count_parked(deed, ", retried in vain")

    def _mend(self, number: int, pen: Pen) -> None:
        """A user of the master makes the rows what a parked transaction expects."""
        statements: list[Statement] = []
        for call in deferred.show_error(self.sites["hq"], number).calls:
            table = call.table.rpartition(".")[2]
            if table not in self.tables:
                continue
            if call.old is None:
                statements += [delete(table, int(str((call.new or {})["id"])))]
            elif set(call.old) - {"id"}:
                key = int(str(call.old["id"]))
                gone = {c for c in call.old if c.endswith(" (gone)")}
                others = {c: v for c, v in call.old.items() if c not in {"id", *gone}}
                statements.append(update(table, key, **others))
        done, _ = self.write(pen, "hq", lambda _rows: statements)
        if isinstance(done, Deed):
            self.mended.add(done.transaction)

    def _edits(
        self, number: int, deed: Deed, pen: Pen
    ) -> list[tuple[deferred.Edit, tuple[tuple[str, str], str]]]:
        """A note of its own for the first row that has one."""
        for call in deferred.show_error(self.sites["hq"], number).calls:
            table = call.table.rpartition(".")[2]
            if table in self.tables and call.new is not None and "note" in call.new:
                place = table, str(call.new.get("uid"))
                made = deferred.Edit(
                    call=call.call_no, column="note", value=pen.token()
                )
                return [(made, (place, "note"))]
        return []

    def _deed(self, origin: str, transaction: str) -> Deed | None:
        named = (
            d for d in self.deeds if (d.site, d.transaction) == (origin, transaction)
        )
        return next(named, None)

    # --- when it is quiet ---------------------------------------------------------

    def settle(self) -> None:
        """Push and refresh until nothing is left to do."""
        self.story.tell("quiet")
        for _ in range(LAST):
            for site in SITES:
                self.push(site)
            for site in SITES:
                self.refresh(site)

    def judged(self) -> list[Violation]:
        """What nobody was told of."""
        judge = Judge(
            told=self.told,
            deeds=self.deeds,
            own=self.own,
            tried=self.tried,
            references=self.references,
            free=self.free,
        )
        found = judge.judge()
        for history, seen in judge.seen.items():
            self.met[history] |= seen
        return found

    def limited(self, site: str, place: Place, row: Row) -> bool:
        """Whether a row of the master is none of a site's."""
        return False

    def _compared(self) -> list[Violation]:
        """Where a site differs from the master when it is quiet.

        Nobody holds a row then, and nothing is pending: what was held back has come.
        """
        return [
            Violation(history, what)
            for site in SITES
            for history in self.pens
            for what in self._differences(site, history)
        ]

    def _differences(self, site: str, history: int) -> list[str]:
        here = self.users.rows(site, history)
        mine = {(table, row["id"]) for (table, _), row in here.items()}
        # Before rows are paired: of two with one token the site may have one only.
        there = placed(
            (place[0], row)
            for place, row in self.users.rows("hq", history).items()
            if (place[0], row["id"]) in mine or not self.limited(site, place, row)
        )
        found = []
        for place in sorted({*here, *there}):
            wanted, row = there.get(place), here.get(place)
            if row is not None and wanted is not None:
                wanted = {c: wanted.get(c) for c in row}
            if row != wanted:
                found.append(f"{site} has {row}, the master {wanted}")
        return found


def url(sites: Directory, name: str) -> str:
    """The address of a site's database, as psycopg takes it."""
    found = sites[name].url.set(drivername="postgresql")
    return found.render_as_string(hide_password=False)
