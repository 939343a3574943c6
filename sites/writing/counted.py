"""Running the statements of a write, which must touch as many rows as were compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func
from sqlalchemy.sql.dml import Delete, Insert, Update

from sites.errors import RowCountMismatch
from sites.progress import RowsDone
from sites.sessions.prepared import Prepared
from sites.tables.table import Table
from sites.words import counted, does
from sites.writing.staged import UPDATES, Staged, never_updated, selected

#: The most rows that one statement writes if the caller wants to see progress.
SLICE = 100_000

#: Whether users have triggers for whole statements on a table.
_STATEMENT_TRIGGERS = sa.text(
    "SELECT EXISTS (SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
    " JOIN pg_namespace n ON n.oid = p.pronamespace WHERE t.tgrelid = :oid"
    " AND NOT t.tgisinternal AND t.tgtype & 1 = 0 AND n.nspname <> 'snaptide')"
)

#: Builds a statement for staged changes, the equalities that select them, and kinds.
Build = Callable[..., Insert | Update | Delete]


@dataclass(slots=True, kw_only=True)
class Counted:
    """Runs one statement after another, and counts the rows."""

    connection: Connection
    #: equalities that select the changes in each source
    rows: Mapping[str, Any]
    #: called with the number of rows written; large writes are then divided by `SLICE`
    on_progress: RowsDone | None = None
    done: int = 0

    def run(
        self, build: Build, staged: Staged, count: Mapping[str, int], *kinds: str
    ) -> None:
        """Write the changes of some kinds.

        Parameters:
            count: how many there are of each kind.

        Raises:
            RowCountMismatch: more or fewer rows were touched.
        """
        expected = sum(count.get(kind, 0) for kind in kinds)
        if not expected:
            return
        if self._may_be_divided(staged.table, expected):
            parts = self._parts(staged, expected, *kinds)
            touched = sum(self._part(build, staged, part, *kinds) for part in parts)
        else:
            touched = self._all(build, staged, *kinds)
        if touched != expected:
            raise RowCountMismatch(
                f"{build.__name__.capitalize()} on {staged.table.qualified} changed "
                f"{counted(touched, 'row')}, but {expected:,} {does(expected, 'were')} "
                f"compared.{self._because(staged, *kinds)}",
                table=str(staged.table.qualified),
            )

    def _because(self, staged: Staged, *kinds: str) -> str:
        """The columns of which changes give values that no update writes, as a reason.

        An update leaves such changes out: see `leaves_alone`.
        """
        if not {*UPDATES} & {*kinds}:
            return ""
        given = [
            name
            for name in never_updated(staged, staged.beside_key)
            if staged.has_old and self._gives(staged, name, *kinds)
        ]
        if not given:
            return ""
        return (
            f" {', '.join(given)} {does(len(given), 'are')} GENERATED ALWAYS AS "
            "IDENTITY there, so PostgreSQL takes no other value in an update."
        )

    def _gives(self, staged: Staged, name: str, *kinds: str) -> bool:
        column = staged.table.column(name)
        changed = sa.select(sa.literal(1)).where(
            selected(staged.source, self.rows),
            staged.kind(*kinds),
            sa.not_(column.unchanged(staged.old(name), staged.new(name))),
        )
        return self.connection.execute(changed.limit(1)).first() is not None

    def _may_be_divided(self, table: Table, expected: int) -> bool:
        """Whether the caller wants to see progress, and dividing changes nothing else.

        A row that refers to its own table may refer to a row of a later part; and
        users' statement triggers must see the same with and without a progress report.
        """
        if self.on_progress is None or expected <= SLICE:
            return False
        if table.qualified in {foreign.parent for foreign in table.foreign_keys}:
            return False
        return not self.connection.scalar(_STATEMENT_TRIGGERS, {"oid": table.oid})

    def _parts(self, staged: Staged, expected: int, *kinds: str) -> Iterator[range]:
        """Ranges of call numbers, each of which one statement writes."""
        number = staged.source.c.call_no
        ends = sa.select(func.min(number), func.max(number))
        mine = ends.where(selected(staged.source, self.rows), staged.kind(*kinds))
        first, last = self.connection.execute(mine).one()
        if first is None:
            return
        width = -(-(last - first + 1) * SLICE // expected)
        for start in range(first, last + 1, width):
            yield range(start, start + width)

    def _part(self, build: Build, staged: Staged, part: range, *kinds: str) -> int:
        statement = build(staged, {**self.rows, "call_no": part}, *kinds)
        return self._written(self.connection.execute(statement).rowcount)

    def _all(self, build: Build, staged: Staged, *kinds: str) -> int:
        prepared = _prepared(build, staged, self.rows, *kinds)
        values = {_room(name): value for name, value in self.rows.items()}
        return self._written(prepared.run(self.connection, **values).rowcount)

    def _written(self, touched: int) -> int:
        self.done += touched
        if self.on_progress is not None:
            self.on_progress(self.done)
        return touched


def _prepared(
    build: Build, staged: Staged, rows: Mapping[str, Any], *kinds: str
) -> Prepared:
    """A statement for rows that are selected by values of these columns."""

    def made() -> Prepared:
        values = {
            name: sa.bindparam(_room(name), 0, staged.source.c[name].type)
            for name in rows
        }
        return Prepared(build(staged, values, *kinds))

    return staged.keep((build.__name__, kinds, tuple(rows)), made)


def _room(column: str) -> str:
    return f"its_{column}"
