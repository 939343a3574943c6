"""The rows of a conflict, side by side: as values for rules, as text for the record.

Rules look at few columns and the record keeps all. So Python fetches only the values
that a rule reads, and the database writes the record by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, CursorResult, Row, Text, func, select
from sqlalchemy.dialects.postgresql import JSONB, array

from sites.transfer.values import Numbers, bigints
from sites.writing.staged import Staged

#: Rows that are held as Python values at a time.
CHUNK = 4000

#: The images of a row, as their columns are labelled.
SIDES = ("old", "new", "cur")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Changes of a transaction in one table, beside the rows they are compared with."""

    staged: Staged
    unit: int | ColumnElement[int]
    #: the source of the changes, joined with `current`
    joined: sa.FromClause
    #: the master's table, or an alias of it
    current: sa.FromClause
    #: which of the joined rows disagree, if they are of the unit
    wrong: ColumnElement[bool]
    #: further expressions to select for each row, by their labels
    facts: tuple[ColumnElement[Any], ...] = ()
    #: columns that rules look at only in a conflict about them, if a row is updated; by
    #: name, with the label of the fact that says so
    about: Mapping[str, str] = field(default_factory=dict)

    def select(self, columns: Sequence[str]) -> sa.Select[Any]:
        """Select the rows that disagree, in the order of their calls, for `image`.

        Each has its call number in the text of an array, `call_nos`.

        Parameters:
            columns: the columns whose values are wanted.
        """
        number = self.staged.source.c.call_no
        call_nos = sa.cast(array([number]), Text).label("call_nos")
        return self.selected(columns, call_nos).order_by(number)

    def selected(
        self, columns: Sequence[str], *first: ColumnElement[Any]
    ) -> sa.Select[Any]:
        """Select the rows that disagree: some expressions, facts, and values.

        Parameters:
            columns: the columns whose values are wanted.
        """
        source = self.staged.source
        read: list[ColumnElement[Any]] = [
            *map(self.staged.old, columns),
            *map(self.staged.new, columns),
            *(self.current.c[name] for name in columns),
        ]
        labels = [f"{side}{n}" for side in SIDES for n in range(len(columns))]
        values = [one.label(name) for one, name in zip(read, labels, strict=True)]
        facts = source.c.tran, source.c.several, source.c.kind, *self.facts
        return (
            select(*first, *facts, *values)
            .select_from(self.joined)
            .where(source.c.unit == self.unit, self.wrong)
        )

    def as_text(self, call_nos: Sequence[int]) -> sa.CTE:
        """Some of the rows with their three images, each as JSON with a text by column.

        A missing image is NULL: the old one of an insert, the new one of a delete,
        the current one of a row that is gone.
        """
        staged, source = self.staged, self.staged.source
        columns = sorted(staged.columns, key=_place)
        names = sa.literal(columns, sa.ARRAY(Text))
        absent = self.current.c[staged.identity[0]].is_(None)

        def image(
            values: Sequence[ColumnElement[Any]], unless: ColumnElement[bool]
        ) -> ColumnElement[Any]:
            texts = array([sa.cast(v, Text) for v in values])
            whole = func.jsonb_object(names, texts, type_=JSONB)
            return sa.case((sa.not_(unless), whole))

        return (
            select(
                source.c.call_no,
                image([*map(staged.old, columns)], staged.kind("I", "N")).label("old"),
                image([*map(staged.new, columns)], staged.kind("D")).label("new"),
                image([self.current.c[c] for c in columns], absent).label("current"),
            )
            .select_from(self.joined)
            .where(chosen(staged, self.unit, call_nos), self.wrong)
            .cte("images")
            .prefix_with("MATERIALIZED", dialect="postgresql")
        )


def _place(name: str) -> tuple[int, bytes]:
    """Where a name comes in a `jsonb`, which sorts its names when it is made."""
    stored = name.encode()
    return len(stored), stored


def chosen(
    staged: Staged, unit: int | ColumnElement[int], call_nos: Sequence[int]
) -> ColumnElement[bool]:
    """The rows of a unit with these call numbers."""
    numbers = bigints(call_nos)
    return sa.and_(
        staged.source.c.unit == unit, staged.source.c.call_no == func.any(numbers)
    )


def chunks(
    connection: Connection, wanted: sa.Select[Any], size: int, *, many: bool
) -> Iterator[Sequence[Row[Any]]]:
    """The rows of a `Compared.select`, or of `alike.select`: so many calls at a time.

    Parameters:
        many: there may be more rows than a chunk, so use a cursor. Otherwise, which
            is nearly always, all rows come in one round trip.
    """
    if many:
        options = {"stream_results": True, "max_row_buffer": 1}
        with connection.execute(wanted, execution_options=options) as found:
            # The caller may stop before the end.
            yield from _divided(_fetched(found, size), size)
    elif rows := connection.execute(wanted).all():
        yield rows


def _fetched(found: CursorResult[Any], size: int) -> Iterator[Row[Any]]:
    """Fetch about as many rows at a time as a chunk has."""
    most = 1
    while rows := found.fetchmany(most):
        yield from rows
        calls = sum(len(Numbers(row.call_nos)) for row in rows)
        most = max(1, size * len(rows) // calls)


def _divided(rows: Iterable[Row[Any]], size: int) -> Iterator[Sequence[Row[Any]]]:
    some, calls = list[Row[Any]](), 0
    for row in rows:
        some.append(row)
        calls += len(Numbers(row.call_nos))
        if calls == size:
            yield some
            some, calls = [], 0
    if some:
        yield some


def image(columns: Sequence[str], row: Row[Any], place: int) -> dict[str, object]:
    """One image of a row: its values of some columns.

    Parameters:
        columns: as given to `Compared.select`.
        place: 0 old, 1 new, 2 current.
    """
    end = len(row) - len(columns) * (2 - place)
    return dict(zip(columns, row[end - len(columns) : end], strict=True))
