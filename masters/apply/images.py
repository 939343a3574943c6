"""The rows of a conflict, side by side: as values for rules, as text for the record.

Rules look at few columns and the record keeps all. So Python fetches only the values
that a rule reads, and the database writes the record by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Text, func, select
from sqlalchemy.dialects.postgresql import JSONB

from sites.writing.staged import Staged

#: Rows that are held as Python values at a time.
CHUNK = 4000


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

    def select(self, columns: Sequence[str]) -> sa.Select[Any]:
        """Select the rows that disagree, in the order of the calls, for `image`.

        Parameters:
            columns: the columns whose values are wanted.
        """
        source = self.staged.source
        values = [
            *(self.staged.old(name).label(f"old{n}") for n, name in enumerate(columns)),
            *(self.staged.new(name).label(f"new{n}") for n, name in enumerate(columns)),
            *(self.current.c[name].label(f"cur{n}") for n, name in enumerate(columns)),
        ]
        return (
            select(
                source.c.call_no,
                source.c.tran,
                source.c.several,
                source.c.kind,
                *self.facts,
                *values,
            )
            .select_from(self.joined)
            .where(source.c.unit == self.unit, self.wrong)
            .order_by(source.c.call_no)
        )

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
            texts = sa.dialects.postgresql.array([sa.cast(v, Text) for v in values])
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
    numbers = sa.literal(list(call_nos), sa.ARRAY(BigInteger))
    return sa.and_(
        staged.source.c.unit == unit, staged.source.c.call_no == func.any(numbers)
    )


def chunks(
    connection: Connection, wanted: sa.Select[Any], *, many: bool
) -> Iterator[Sequence[Row[Any]]]:
    """The rows of a query, `CHUNK` at a time.

    Parameters:
        many: there may be more rows than a chunk, so use a cursor. Otherwise, which
            is nearly always, all rows come in one round trip.
    """
    if many:
        options = {"stream_results": True, "max_row_buffer": CHUNK}
        with connection.execute(wanted, execution_options=options) as found:
            yield from found.partitions(CHUNK)  # the caller may stop before the end
    elif rows := connection.execute(wanted).all():
        yield rows


def image(columns: Sequence[str], row: Row[Any], place: int) -> dict[str, object]:
    """One image of a row: its values of some columns.

    Parameters:
        columns: as given to `Compared.select`.
        place: 0 old, 1 new, 2 current.
    """
    end = len(row) - len(columns) * (2 - place)
    return dict(zip(columns, row[end - len(columns) : end], strict=True))
