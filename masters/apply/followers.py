"""Rows of a transaction that refer to a row which a rule drops or gives another value.

Such a row, a follower, means the row that its own transaction wrote, never one that
another site wrote under the same key. So a follower is dropped with that row, together
with its own followers, or refers to the value that the row gets. The record has an
entry for each.

Some methods take rows of one key for versions of one row. They drop the losing version,
not the row: followers then refer to the winner, at all masters alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Connection, and_

from masters.apply.alone import Alone
from masters.apply.answers import Settled
from masters.apply.images import chosen
from masters.apply.links import GONE, Link, any_of, links, refers
from masters.apply.reference_record import Cause, ReferenceRecord
from masters.apply.resolve import Explicit, RowResolution, Take
from masters.apply.verdict import Verdict
from masters.resolution.conflict import Kind
from masters.rules.table_rules import TableRules
from sites.tables import references
from sites.transfer.values import unnested
from sites.writing.staged import Staged

#: Why a row stays in conflict even if a rule settles it.
LATER = "a later step of the transaction may be about the row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A staged row that refers to another staged row."""

    call_no: int
    #: the call of the row referred to
    of: int
    #: the master has that row already
    there: bool
    #: the master's row has the values that the follower refers to: nothing to do
    as_it_is: bool
    #: the follower is to refer to that row as the master has it
    kept: bool = False


@dataclass(slots=True, kw_only=True)
class Followers:
    """The staged tables of a unit, and their rows that follow others."""

    connection: Connection
    unit: int
    origin: str
    master: str
    #: the tables with changes; each with its count by kind, which is kept up to date
    tables: Sequence[tuple[Staged, dict[str, int]]]
    #: row changes of the transaction follow in a later unit
    goes_on: bool
    alone: Alone
    #: see `masters.apply.ApplyUnit`
    on_lost: Callable[[Staged, Mapping[str, Any], Set[str] | None], None] | None
    #: how many records there are
    written: int = 0
    #: some rows are dropped, or get other keys or unique values than the site's
    take_away: bool = False
    #: by place in `tables`: calls that are left out
    _left_out: dict[int, set[int]] = field(default_factory=dict)
    #: by place in `tables`, see `_named_by`
    _named: dict[int, Set[str]] = field(default_factory=dict)
    #: followers to change as soon as the rows they refer to are restaged
    _moved: list[tuple[Link, Cause, list[Follower]]] = field(default_factory=list)

    def left_out(self, staged: Staged) -> Collection[int]:
        """The calls of a table that were dropped with the rows that they refer to."""
        if not self._left_out:
            return ()
        return self._left_out.get(self._place(staged), ())

    def refuse(self, staged: Staged, decided: Verdict, answer: RowResolution) -> str:
        """Why a row cannot be dropped or renamed; empty if it can, or is neither.

        Notes that the unit drops or renames rows.
        """
        if not self.tables or _loses_version(answer):
            return ""
        if not self._loses(staged, decided):
            return ""
        self.take_away = True
        return LATER if self.goes_on else ""

    def look(self, staged: Staged, rows: Sequence[Settled], rules: TableRules) -> None:
        """Find followers of rows that are decided and not yet restaged.

        Writes the record, and restages followers of rows that stay as the master has
        them. `follow` does the rest.
        """
        self._tell(staged, rows)
        if not self._of(staged):
            return
        ordered = sorted(rows, key=lambda row: id(row.answer.records[-1].rule))
        for _, alike in groupby(ordered, lambda row: id(row.answer.records[-1].rule)):
            some = list(alike)
            cause = Cause(
                made=some[0].made,
                rule=some[0].answer.records[-1].rule,
                rules=rules,
            )
            dropped = [
                call_no
                for row in some
                if row.verdict.becomes is None
                and row.verdict.kind not in GONE
                and not _loses_version(row.answer)
                for call_no in row.verdict.call_nos
            ]
            self._leave_out(staged, dropped, cause)
            for link in self._of(staged):
                moved = [
                    call_no
                    for row in some
                    if _moves(row, link)
                    for call_no in row.verdict.call_nos
                ]
                if found := list(self._referring(link, moved)):
                    self._moved.append((link, cause, found))

    def follow(self) -> None:
        """Change or drop the followers of restaged rows. Writes the work tables."""
        for link, cause, found in self._moved:
            self._point(link, cause, found)
        self._moved.clear()
        for place, call_nos in self._left_out.items():
            staged, count = self.tables[place]
            which = chosen(staged, self.unit, list(call_nos))
            gone = sa.delete(staged.source).where(which)
            for kind in self.connection.scalars(gone.returning(staged.source.c.kind)):
                count[kind] -= 1

    def _leave_out(self, staged: Staged, call_nos: Sequence[int], cause: Cause) -> None:
        """Leave out followers of dropped rows, and followers of those in turn."""
        for link in self._of(staged) if call_nos else ():
            found = list(self._referring(link, call_nos))
            stay = [replace(one, kept=True) for one in found if one.there]
            if moved := [one for one in stay if not one.as_it_is]:
                self._point(link, cause, moved)
            known = self._left_out.setdefault(self._place(link.child), set())
            gone = {one.call_no for one in found if not one.there} - known
            if gone:
                known |= gone
                self._tell_of(link.child, sorted(gone), None)
                self.alone.followed(link.child, sorted(gone), cause)
                self.written += self._record(link).leave_out(sorted(gone), cause)
                self._leave_out(link.child, sorted(gone), cause)

    def _referring(self, link: Link, call_nos: Sequence[int]) -> Iterator[Follower]:
        """The followers of some calls through one foreign key."""
        if not call_nos:
            return
        child, parent = (
            link.child.source.alias("child"),
            link.parent.source.alias("parent"),
        )
        present = link.parent.table.sql().alias("present")
        columns = link.key.parent_columns
        wanted = [link.parent.new(name, parent) for name in columns]
        there = and_(
            parent.c.kind != "I", *(present.c[n].is_not(None) for n in columns)
        )
        same = [present.c[n] == v for n, v in zip(columns, wanted, strict=True)]
        rows = self.connection.execute(
            sa.select(
                child.c.call_no,
                parent.c.call_no.label("of"),
                there.label("there"),
                sa.func.coalesce(and_(there, *same), sa.false()).label("as_it_is"),
            )
            .select_from(
                child.join(parent, refers(link, child, parent)).outerjoin(
                    present, link.parent.same_row(present, parent)
                )
            )
            .where(child.c.unit == self.unit, parent.c.unit == self.unit)
            .where(parent.c.call_no == any_of(call_nos))
            .where(child.c.call_no != parent.c.call_no)
            .order_by(child.c.call_no)
        )
        for row in rows.all():
            yield Follower(**row._mapping)

    def _point(
        self,
        link: Link,
        cause: Cause,
        found: Sequence[Follower],
        before: Set[int] = frozenset(),
    ) -> None:
        """Point rows to the new values of their parents, and their followers likewise.

        A parent whose change is dropped keeps the values that the master has.

        Parameters:
            before: rows that are pointed already: references may form a circle.
        """
        call_nos = [one.call_no for one in found]
        record = self._record(link)
        self.written += record.point(call_nos, cause)
        self.alone.followed(link.child, call_nos, cause)
        seen = before | set(call_nos)
        onward = [
            (next_, [one for one in those if one.call_no not in seen])
            for next_ in self._of(link.child)
            if set(next_.key.parent_columns) & set(link.key.columns)
            and (those := list(self._referring(next_, call_nos)))
        ]
        self.connection.execute(self._pointed(link, found))
        record.pointed(call_nos, cause)
        if not set(link.key.columns).isdisjoint(link.child.identity):
            self.alone.followed(link.child, call_nos, cause)
        for next_, those in onward:
            if those:
                self._point(next_, cause, those, seen)

    def _pointed(self, link: Link, found: Sequence[Follower]) -> sa.Update:
        child, parent = link.child.source, link.parent.source.alias("parent")
        present = link.parent.table.sql().alias("present")
        pairs = unnested(
            "pair",
            {
                "call_no": (BigInteger(), [one.call_no for one in found]),
                "of": (BigInteger(), [one.of for one in found]),
                "kept": (Boolean(), ["t" if one.kept else "f" for one in found]),
            },
        )
        values = [
            sa.case(
                (pairs.c.kept, present.c[name]), else_=link.parent.new(name, parent)
            ).label(f"v{n}")
            for n, name in enumerate(link.key.parent_columns)
        ]
        given = (
            sa.select(pairs.c.call_no, *values)
            .select_from(
                parent.join(pairs, parent.c.call_no == pairs.c.of).outerjoin(
                    present, link.parent.same_row(present, parent)
                )
            )
            .where(parent.c.unit == self.unit)
            .subquery("given")
        )
        places = [link.child.columns.index(name) + 1 for name in link.key.columns]
        return (
            sa.update(child)
            .values({child.c[f"n{p}"]: given.c[f"v{n}"] for n, p in enumerate(places)})
            .where(child.c.unit == self.unit, child.c.call_no == given.c.call_no)
        )

    def _tell(self, staged: Staged, rows: Sequence[Settled]) -> None:
        """Call `on_lost` for rows that will not be found under the site's values."""
        lost: dict[frozenset[str] | None, list[int]] = {}
        for row in rows if self.tables and self.on_lost else ():
            decided = row.verdict
            if not _loses_version(row.answer) and self._loses(staged, decided):
                named = _not_new(decided) & self._named_by(staged)
                moved = frozenset(named) if decided.becomes or named else None
                lost.setdefault(moved, []).extend(decided.call_nos)
        for moved, call_nos in lost.items():
            self._tell_of(staged, call_nos, moved)

    def _tell_of(
        self, staged: Staged, call_nos: Sequence[int], moved: Set[str] | None
    ) -> None:
        if self.on_lost is not None:
            rows = {"unit": self.unit, "call_no": tuple(call_nos)}
            self.on_lost(staged, rows, moved)

    def _loses(self, staged: Staged, decided: Verdict) -> bool:
        """Whether a row will not be found under the values that the site gave it.

        It is dropped, or gets other values in its key or in columns that foreign keys
        refer to.
        """
        given = _not_new(decided)
        if decided.becomes is None and not given:
            return decided.kind not in GONE
        return bool(given) and not given.isdisjoint(self._named_by(staged))

    def _named_by(self, staged: Staged) -> Set[str]:
        """The columns of a table's key, and those that foreign keys refer to."""
        place = self._place(staged)
        if place not in self._named:
            referred = references.referred(self.connection, staged.table)
            self._named[place] = referred | set(staged.identity)
        return self._named[place]

    def _record(self, link: Link) -> ReferenceRecord:
        return ReferenceRecord(
            connection=self.connection,
            staged=link.child,
            unit=self.unit,
            key=link.key,
            origin=self.origin,
            master=self.master,
        )

    def _of(self, parent: Staged) -> list[Link]:
        tables = [staged for staged, _ in self.tables]
        return [link for link in links(tables) if link.parent is parent]

    def _place(self, staged: Staged) -> int:
        return next(n for n, (one, _) in enumerate(self.tables) if one is staged)


def _not_new(decided: Verdict) -> frozenset[str]:
    """The columns that do not get the site's values."""
    columns = decided.columns.items()
    return frozenset(name for name, one in columns if one is not Take.NEW)


def _loses_version(answer: RowResolution) -> bool:
    """Whether the master's row of the same key stays as a version of the same row."""
    return any(
        one.rule.versions_of_one_row and one.conflict.kind is Kind.UNIQUENESS
        for one in answer.records
    )


def _moves(row: Settled, link: Link) -> bool:
    """Whether a rule gives a row another value than its followers expect."""
    if row.verdict.becomes is None:
        return False
    sources = [row.verdict.columns.get(name) for name in link.key.parent_columns]
    return any(one is Take.CURRENT or isinstance(one, Explicit) for one in sources)
