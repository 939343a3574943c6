"""The rows of a conflict, side by side: as values for rules, as text for the record.

Rules look at few columns and the record keeps all. So Python fetches only the values
that a rule reads, and the database writes the record by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Text, func, select
from sqlalchemy.dialects.postgresql import JSONB, array

from sites.transfer.values import bigints
from sites.writing.staged import Staged

#: Rows that are held as Python values at a time.
CHUNK = 4000

#: Calls that one answer can be about.
ALIKE = 10_000


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

    def select(
        self, columns: Sequence[str], *, together: bool = False
    ) -> sa.Select[Any]:
        """Select the rows that disagree, in the order of their calls, for `image`.

        Each has its call number in an array, `call_nos`.

        Parameters:
            columns: the columns whose values are wanted.
            together: of `ALIKE` rows, those that do not differ in anything selected
                come as one, with the call numbers of all.
        """
        source = self.staged.source
        common = source.c.tran, source.c.several, source.c.kind, *self.facts
        values = [
            *(self.staged.old(name).label(f"old{n}") for n, name in enumerate(columns)),
            *(self.staged.new(name).label(f"new{n}") for n, name in enumerate(columns)),
            *(self.current.c[name].label(f"cur{n}") for n, name in enumerate(columns)),
        ]
        if not together:
            call_nos = array([source.c.call_no]).label("call_nos")
            rows = select(call_nos, *common, *values)
            return self._of_unit(rows).order_by(source.c.call_no)
        before = func.row_number().over(order_by=source.c.call_no) - 1
        chunk = (before // sa.literal(ALIKE, BigInteger)).label("chunk")
        rows = select(source.c.call_no, chunk, *common, *values)
        found = self._of_unit(rows).subquery("found")
        shared = [found.c[one.name] for one in common]
        seen = [
            (one.name, self._seen(found, name, found.c[one.name]))
            for one, name in zip(values, 3 * [*columns], strict=True)
        ]
        keys = [
            value if self.staged.table.column(name).exact else _text(value)
            for (_, value), name in zip(seen, 3 * [*columns], strict=True)
        ]
        shown = [func.any_value(value).label(label) for label, value in seen]
        return (
            select(func.array_agg(found.c.call_no).label("call_nos"), *shared, *shown)
            .group_by(found.c.chunk, *shared, *keys)
            .order_by(found.c.chunk, func.min(found.c.call_no))
        )

    def _of_unit(self, rows: sa.Select[Any]) -> sa.Select[Any]:
        found = rows.select_from(self.joined)
        return found.where(self.staged.source.c.unit == self.unit, self.wrong)

    def _seen(
        self, found: sa.Subquery, name: str, value: ColumnElement[Any]
    ) -> ColumnElement[Any]:
        """A value, or NULL if the row is updated and has no conflict about it."""
        if name not in self.about:
            return value
        about = found.c.missing, found.c[self.about[name]], found.c.kind != "U"
        return sa.case((sa.or_(*about), value))

    def as_text(self, call_nos: Sequence[int]) -> sa.CTE:
        """Some of the rows with their three images, each as JSON with a text by column.

        A missing image is NULL: the old one of an insert, the new one of a delete,
        the current one of a row that is gone.
        """
        staged, source = self.staged, self.staged.source
        names = sa.literal(list(staged.columns), sa.ARRAY(Text))
        absent = self.current.c[staged.identity[0]].is_(None)

        def image(
            values: Sequence[ColumnElement[Any]], unless: ColumnElement[bool]
        ) -> ColumnElement[Any]:
            texts = array([sa.cast(v, Text) for v in values])
            whole = func.jsonb_object(names, texts, type_=JSONB)
            return sa.case((sa.not_(unless), whole))

        columns = staged.columns
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


def chosen(
    staged: Staged, unit: int | ColumnElement[int], call_nos: Sequence[int]
) -> ColumnElement[bool]:
    """The rows of a unit with these call numbers."""
    numbers = bigints(call_nos)
    return sa.and_(
        staged.source.c.unit == unit, staged.source.c.call_no == func.any(numbers)
    )


def _text(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """A value as the driver reads it: equal values of its type may differ.

    NULL and an empty text have different texts.
    """
    return sa.cast(func.row(value), Text)


def chunks(
    connection: Connection, wanted: sa.Select[Any], *, many: bool
) -> Iterator[Sequence[Row[Any]]]:
    """The rows of a `Compared.select`: `CHUNK` at a time, or those of `ALIKE` calls.

    Parameters:
        many: there may be more rows than a chunk, so use a cursor. Otherwise, which
            is nearly always, all rows come in one round trip.
    """
    if many:
        options = {"stream_results": True, "max_row_buffer": CHUNK}
        with connection.execute(wanted, execution_options=options) as found:
            yield from _divided(found)  # the caller may stop before the end
    elif rows := connection.execute(wanted).all():
        yield rows


def _divided(rows: Iterable[Row[Any]]) -> Iterator[Sequence[Row[Any]]]:
    some, calls = list[Row[Any]](), 0
    for row in rows:
        some.append(row)
        calls += len(row.call_nos)
        if len(some) >= CHUNK or calls >= ALIKE:
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
