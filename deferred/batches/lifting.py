"""Lifting changes of columns that the destination has dropped to those in their place.

The owner of the table has declared how (`masters.log.lenses`). Changes land in a work
table with the columns of their site, and go on from there to one with the columns of
the destination: whatever looks at them after that sees its present shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, and_, case, cast, select

from deferred.batches import work
from deferred.queues.queue import Queue
from masters.log import lenses
from masters.log.lenses import Lens
from sites.sessions import revisions
from sites.sessions.prepared import Prepared
from sites.tables.table import Column, Table
from sites.transfer.types import NativeType
from sites.writing.staged import Staged

#: The revision whose schema has lenses.
_SINCE = "0075"

#: Added to the number of a queue for its work tables: in which changes land, and from
#: which they are applied.
_LANDED, _LIFTED = 1 << 32, 1 << 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """The way of a queue's changes through the lenses of its table."""

    lenses: tuple[Lens, ...]
    #: by number, the names in the queue of columns that are gone
    gone: Mapping[int, str]
    #: in which the changes land
    landed: Staged
    #: from which they are applied
    lifted: Staged

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns of the queue that the destination has."""
        return self.landed.columns[: -len(self.gone)]

    def run(self, target: Connection, *, instead: bool) -> None:
        """Lift what has landed.

        Parameters:
            instead: of what the work table has.

        Raises:
            sqlalchemy.exc.DBAPIError: an expression fails for a value.
        """
        if instead:
            work.clear(target, [self.lifted])
        ids = tuple(one.id for one in self.lenses)
        self.landed.keep(("lift", ids), lambda: Prepared(self._lifting())).run(target)
        work.clear(target, [self.landed])

    def _lifting(self) -> sa.Insert:
        source, current = self.landed.source, self.lifted.table.sql()
        values: dict[str, ColumnElement[Any]] = {n: source.c[n] for n in work.FIXED}
        for place, name in enumerate(self.lifted.columns, 1):
            if name in self.landed.columns:
                values[f"o{place}"] = self.landed.old(name)
                values[f"n{place}"] = self.landed.new(name)
        for one in self.lenses:
            values |= self._made(one, current)
        columns = work.columns_of(self.lifted)
        joined = source.outerjoin(current, self.landed.same_row(current))
        wanted = select(*(values[name] for name in columns)).select_from(joined)
        return sa.insert(self.lifted.source).from_select(columns, wanted)

    def _made(
        self, one: Lens, current: sa.TableClause
    ) -> dict[str, ColumnElement[Any]]:
        """The images of the columns that a lens makes, by column of the work table."""
        table, key = self.lifted.table, self.lifted.identity[0]
        starts = self.landed.old(key).is_not(None)
        ends = self.landed.new(key).is_not(None)
        olds, news = (self._named(one, table, side) for side in "on")
        here = {n: current.c[called] for n, called in one.present(table).items()}
        found: dict[str, ColumnElement[Any]] = {}
        seen = and_(current.c[key].is_not(None), *shown(one, here, olds))
        left = and_(starts, *unchanged(one, olds, news))
        for name, expression in one.sets.items():
            called = one.present(table)[name]
            place = self.lifted.columns.index(called) + 1
            type_ = table.column(called).staged_type
            # A lens may lose something, which has not changed if the site saw the row.
            # Values of other types that can be assigned have to be cast in a CASE.
            before, after = (
                cast(lenses.evaluated(expression, side), type_) for side in (olds, news)
            )
            old = case((seen, cast(current.c[called], type_)), else_=before)
            new = case((left, old), else_=after)
            found[f"o{place}"] = case((starts, old))
            found[f"n{place}"] = case((ends, new))
        return found

    def _named(
        self, one: Lens, table: Table, side: str
    ) -> dict[str, ColumnElement[Any]]:
        """The values of an image by the names in the expressions of a lens."""
        image = self.landed.old if side == "o" else self.landed.new
        present = one.present(table)
        found = {name: image(present[name]) for name in one.shared}
        return found | {g.name: image(self.gone[g.number]) for g in one.gone}


def shown(
    one: Lens,
    here: Mapping[str, ColumnElement[Any]],
    values: Mapping[str, ColumnElement[Any]],
) -> list[ColumnElement[bool]]:
    """Conditions that a row is shown by old columns as an image has them.

    Parameters:
        here: the columns of the row, by the names in expressions.
        values: those of the image.
    """
    return [
        _text(
            cast(lenses.evaluated(gone.back, here), NativeType(gone.type))
        ).is_not_distinct_from(_text(values[gone.name]))
        for gone in one.gone
    ]


def unchanged(
    one: Lens,
    olds: Mapping[str, ColumnElement[Any]],
    news: Mapping[str, ColumnElement[Any]],
) -> list[ColumnElement[bool]]:
    """Conditions that a change leaves the old columns alone."""
    return [
        _text(olds[gone.name]).is_not_distinct_from(_text(news[gone.name]))
        for gone in one.gone
    ]


def found(
    target: Connection, queue: Queue, table: Table, carried: Sequence[str]
) -> Lift | None:
    """The way of a queue's changes through lenses; None if it needs none.

    Parameters:
        queue: by the names that its columns have now.
        carried: those of its columns that the destination has.
    """
    numbers = queue.target_numbers
    if numbers is None or len(carried) == len(queue.columns):
        return None
    applying = in_effect(target, table, numbers)
    if not applying:
        return None
    names = dict(zip(numbers, queue.columns, strict=True))
    old = [gone for one in applying for gone in one.gone]
    gone = {one.number: names[one.number] for one in old}
    made = [one.present(table)[name] for one in applying for name in one.sets]
    wider = replace(
        table,
        columns=(
            # A column of another type may have taken the name of one that is gone.
            *(column for column in table.columns if column.name in carried),
            *(_column(gone[one.number], one.number, one.type) for one in old),
        ),
    )
    both = (*carried, *gone.values())
    key = queue.identity_columns
    return Lift(
        lenses=applying,
        gone=gone,
        landed=work.stage(target, queue.id + _LANDED, wider, both, key),
        lifted=work.stage(target, queue.id + _LIFTED, table, (*carried, *made), key),
    )


def in_effect(
    connection: Connection, table: Table, numbers: Sequence[int]
) -> tuple[Lens, ...]:
    """The lenses for changes that were made for columns of these numbers."""
    if (revisions.of_site(connection) or "") < _SINCE:
        return ()
    return tuple(
        one
        for one in lenses.of_table(connection, table)
        if one.is_in_effect(table) and one.applies_to(numbers)
    )


def _text(value: ColumnElement[Any]) -> ColumnElement[str]:
    return cast(value, Text)


def _column(name: str, number: int, type_: str) -> Column:
    """A column that is gone, as far as its values are staged."""
    return Column(
        name=name,
        number=number,
        state="",
        type=type_,
        plain=type_,
        recorded=type_,
        size=-1,
        nullable=True,
        takes_null=True,
        checked=False,
        default=None,
        generated="",
        identity="",
        collation=None,
        comparable=True,
        equality=None,
        pairable=False,
    )
