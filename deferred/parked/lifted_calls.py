"""Lifting parked calls of columns that are gone, when they are retried.

They were parked before a lens said which columns are in their place, or because it
could not lift them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, and_, case, cast, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import lifting
from deferred.error_catalog import error_call, error_transaction
from deferred.errors import GivesGoneColumn
from deferred.queues.target_columns import unlike
from masters.log import lenses
from masters.log.lenses import Lens
from sites import names
from sites.tables.table import Column, Table, find_table
from sites.transfer.types import NativeType
from sites.transfer.values import from_text, printed

_OLD, _NEW = error_call.c.old_values, error_call.c.new_values


def lift(
    connection: Connection, error_id: int, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Have a parked transaction give values to the columns that lenses make.

    Writes error_call.

    Parameters:
        known: the columns of its tables, as `error_transaction` has them.

    Returns:
        The same, with the new columns in place of those that are gone.

    Raises:
        GivesGoneColumn: an expression fails for a value; the message says why.
    """
    now = dict(known)
    for name, its in known.items():
        table = find_table(connection, names.parse(name))
        if table is None or table.oid != its["oid"]:
            continue
        numbers = {name: n for name, n in its["numbers"].items() if n is not None}
        if {column.number for column in table.columns} >= {*numbers.values()}:
            continue
        for one in lifting.in_effect(connection, table, [*numbers.values()]):
            calls = _Calls(error_id=error_id, table=table, lens=one, numbers=numbers)
            calls.lift(connection)
            now[name] = calls.known(now[name])
            numbers = {**numbers, **now[name]["numbers"]}
    return now


def waiting(connection: Connection, table: Table, one: Lens) -> Mapping[str, int]:
    """How many parked transactions have columns that a lens lifts, by their origin.

    Their sites may show other columns by now.
    """
    its = error_transaction.c.target_columns[str(table.qualified)]
    wanted = select(error_transaction.c.origin, its).where(
        its["oid"].as_integer() == table.oid
    )
    gone = {column.number for column in one.gone}
    return Counter(
        origin
        for origin, known in connection.execute(wanted)
        if gone & {*known["numbers"].values()}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """The calls of a table that a lens lifts."""

    error_id: int
    table: Table
    lens: Lens
    #: by the names in the calls' images, the numbers of columns
    numbers: Mapping[str, int]

    @property
    def gone(self) -> list[str]:
        """The columns that are gone, by the names in images."""
        called = self._called()
        return [called[column.number] for column in self.lens.gone]

    @property
    def made(self) -> dict[str, Column]:
        """The columns in their place, by the names in the lens."""
        present = self.lens.present(self.table)
        return {name: self.table.column(present[name]) for name in self.lens.sets}

    @property
    def called(self) -> dict[str, str]:
        """What these are called in images, by the names in the lens.

        Another column of the images may have had the name that one of them has now.
        """
        others, found = self.numbers.keys() - {*self.gone}, dict[str, str]()
        for name, column in self.made.items():
            found[name] = unlike(column.name, {*others, *found.values()})
        return found

    def known(self, its: Mapping[str, Any]) -> dict[str, Any]:
        """What is stored of the columns of the table afterwards."""
        numbers = {n: v for n, v in its["numbers"].items() if n not in self.gone}
        types = {n: v for n, v in its["types"].items() if n not in self.gone}
        for name, called in self.called.items():
            column = self.made[name]
            numbers[called], types[called] = column.number, column.type
        return {**its, "numbers": numbers, "types": types}

    def lift(self, connection: Connection) -> None:
        """Give all of them values of the new columns in place of the old ones.

        Raises:
            GivesGoneColumn: an expression fails.
        """
        keys = select(error_call.c.identity_columns).where(self._mine()).distinct()
        try:
            with connection.begin_nested():
                for key in connection.scalars(keys).all():
                    changed = sa.update(error_call).values(self._images(key))
                    its = error_call.c.identity_columns == list(key)
                    connection.execute(changed.where(self._mine(), its))
        except DBAPIError as error:
            if not sqlstate.caused_by_transaction(error):
                raise
            old = ", ".join(self.gone)
            raise GivesGoneColumn(
                f"The lens of {old} of {self.table.qualified} cannot lift a value: "
                f"{sqlstate.message(error)}.",
                table=str(self.table.qualified),
                column=self.gone[0],
            ) from error

    def _mine(self) -> ColumnElement[bool]:
        there = (_of(image, name) for image in (_OLD, _NEW) for name in self.gone)
        return and_(
            error_call.c.error_id == self.error_id,
            error_call.c.target_schema == self.table.schema,
            error_call.c.target_table == self.table.name,
            sa.or_(*(value.is_not(None) for value in there)),
        )

    def _images(self, key: Sequence[str]) -> dict[str, ColumnElement[Any]]:
        """The images with the new columns in place of the old ones.

        A change that left the old ones alone gets neither, and leaves the new ones
        alone.
        """
        olds, news = self._named(_OLD), self._named(_NEW)
        left = and_(
            _OLD.is_not(None),
            _NEW.is_not(None),
            *lifting.unchanged(self.lens, olds, news),
        )
        called = self.called
        before = {
            called[name]: self._before(name, column, key, olds)
            for name, column in self.made.items()
        }
        after = {
            called[name]: self._evaluated(name, column, news)
            for name, column in self.made.items()
        }
        without = {side: self._image(side, {}) for side in (_OLD, _NEW)}
        current = error_call.c.current_values
        seen = case((_OLD.is_not(None), self._image(current, before)))
        return {
            "old_values": case((left, without[_OLD]), else_=self._image(_OLD, before)),
            "new_values": case((left, without[_NEW]), else_=self._image(_NEW, after)),
            "current_values": case(
                (left, self._image(current, {})),
                else_=func.coalesce(seen, self._image(current, after)),
            ),
        }

    def _before(
        self,
        name: str,
        column: Column,
        key: Sequence[str],
        olds: Mapping[str, ColumnElement[Any]],
    ) -> ColumnElement[Any]:
        """An old value: that of the master's row, if the site was shown this row."""
        row = self.table.sql()
        present = self.lens.present(self.table)
        here = {n: row.c[called] for n, called in present.items()}
        called = {c.number: c for c in self.table.columns}
        same = [
            row.c[its.name] == from_text(_text(_OLD, one), its.recorded)
            for one in key
            for its in [called[self.numbers[one]]]
        ]
        shown = select(row.c[column.name]).where(
            *same, *lifting.shown(self.lens, here, olds)
        )
        there = shown.correlate(error_call).exists()
        value = select(printed(cast(row.c[column.name], column.staged_type))).where(
            *same
        )
        return case(
            (there, cast(value.correlate(error_call).scalar_subquery(), Text)),
            else_=self._evaluated(name, column, olds),
        )

    def _evaluated(
        self, name: str, column: Column, values: Mapping[str, ColumnElement[Any]]
    ) -> ColumnElement[Any]:
        made = lenses.evaluated(self.lens.sets[name], values)
        return cast(printed(cast(made, column.staged_type)), Text)

    def _named(self, image: ColumnElement[Any]) -> dict[str, ColumnElement[Any]]:
        """The values of an image by the names in the lens."""
        called = self._called()
        found: dict[str, ColumnElement[Any]] = {
            column.name: cast(
                _text(image, called[column.number]), NativeType(column.type)
            )
            for column in self.lens.gone
        }
        for name in self.lens.shared:
            number = self.lens.columns[name]
            (column,) = (c for c in self.table.columns if c.number == number)
            text = _text(image, called[number])
            found.setdefault(name, from_text(text, column.recorded))
        return found

    def _called(self) -> dict[int, str]:
        return {number: name for name, number in self.numbers.items()}

    def _image(
        self, image: ColumnElement[Any], made: Mapping[str, ColumnElement[Any]]
    ) -> ColumnElement[Any]:
        """An image without the old columns, and with others; NULL stays NULL."""
        pairs = func.json_each(image).table_valued(
            sa.column("key", Text), sa.column("value", sa.JSON), with_ordinality="place"
        )
        pair = pairs.render_derived().c
        kept = pair.key != func.all(sa.literal(self.gone, sa.ARRAY(Text)))
        every = select(pair.key, pair.value, pair.place).where(kept)
        last: ColumnElement[int] = sa.literal_column("9999")
        more: Iterable[sa.Select[Any]] = (
            select(sa.literal(name, Text), func.to_json(value), last)
            for name, value in made.items()
        )
        both = sa.union_all(every, *more).subquery("image")
        found = func.json_object_agg(
            both.c.key, aggregate_order_by(both.c.value, both.c.place)
        )
        whole = select(found).select_from(both).correlate(error_call).scalar_subquery()
        return case((image.is_not(None), whole))


def _text(image: ColumnElement[Any], name: str) -> ColumnElement[Any]:
    return image.op("->>", return_type=Text())(name)


def _of(image: ColumnElement[Any], name: str) -> ColumnElement[Any]:
    return image.op("->", return_type=Text())(name)
