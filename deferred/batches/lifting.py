"""Lifting changes of columns that the destination has dropped to those in their place.

The owner of the table has declared how (`masters.log.lenses`). Changes land in a work
table with the columns of their site, and go on from there to one with the columns of
the destination: whatever looks at them after that sees its present shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Text,
    and_,
    case,
    cast,
    select,
)

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

        Where several units change a row, each goes on from what the one before it was
        lifted to, and not from what the lens makes of the site's values: a lens may
        lose something, so the two can differ.

        Parameters:
            instead: empty the work table of lifted changes first.

        Raises:
            sqlalchemy.exc.DBAPIError: an expression fails for a value.
        """
        if instead:
            work.clear(target, [self.lifted])
        self._prepared("first", self._lift_first).run(target)
        for (unit,) in self._prepared("later", self._later_units).run(target).all():
            self._prepared("next", self._lift_next).run(target, its_unit=unit)
        work.clear(target, [self.landed])

    def _prepared(
        self, what: str, made: Callable[[], sa.Select[Any] | sa.Insert]
    ) -> Prepared:
        ids = tuple(one.id for one in self.lenses)
        return self.landed.keep((what, ids), lambda: Prepared(made()))

    def _lift_first(self) -> sa.Insert:
        """Lift the changes of rows that no earlier unit has written."""
        current = self.lifted.table.sql()
        rows = self.landed.source.outerjoin(current, self.landed.same_row(current))
        return self._insert_lifted(
            select().select_from(rows).where(~self._comes_later()), current, None
        )

    def _later_units(self) -> sa.Select[Any]:
        """The units that change rows of earlier ones, in their order."""
        unit = self.landed.source.c.unit
        return select(unit).where(self._comes_later()).distinct().order_by(unit)

    def _comes_later(self) -> ColumnElement[bool]:
        earlier = self.landed.source.alias("earlier")
        return sa.exists().select_from(earlier).where(self._follows(earlier))

    def _follows(self, earlier: FromClause) -> ColumnElement[bool]:
        """Whether an earlier unit has written the row that a change begins with."""
        old, new = self.landed.old, self.landed.new
        same = (old(key) == new(key, earlier) for key in self.landed.identity)
        return and_(earlier.c.unit < self.landed.source.c.unit, *same)

    def _lift_next(self) -> sa.Insert:
        """Lift the other changes of one unit, once all units before it are lifted."""
        source, current = self.landed.source, self.lifted.table.sql()
        earlier = source.alias("earlier")
        landed = (
            select(earlier)
            .where(self._follows(earlier))
            .order_by(earlier.c.unit.desc())
            .limit(1)
            .lateral("landed_before")
        )
        lifted = self.lifted.source.alias("lifted_before")
        same = (
            self.lifted.new(key, lifted) == self.landed.new(key, landed)
            for key in self.landed.identity
        )
        rows = (
            source.outerjoin(current, self.landed.same_row(current))
            .join(landed, sa.true())
            .outerjoin(lifted, and_(lifted.c.unit == landed.c.unit, *same))
        )
        unit = sa.bindparam("its_unit", 0, BigInteger)
        wanted = select().select_from(rows).where(source.c.unit == unit)
        return self._insert_lifted(
            wanted, current, _EarlierChange(landed=landed, lifted=lifted)
        )

    def _insert_lifted(
        self,
        rows: sa.Select[Any],
        current: sa.TableClause,
        before: _EarlierChange | None,
    ) -> sa.Insert:
        source = self.landed.source
        values: dict[str, ColumnElement[Any]] = {n: source.c[n] for n in work.FIXED}
        for place, name in enumerate(self.lifted.columns, 1):
            if name in self.landed.columns:
                values[f"o{place}"] = self.landed.old(name)
                values[f"n{place}"] = self.landed.new(name)
        unsure = []
        for one in self.lenses:
            made = _LensImages(lift=self, lens=one, current=current, before=before)
            values |= made.images()
            unsure.append(made.unsure())
        values["kind"] = case((sa.or_(*unsure), "X"), else_=source.c.kind)
        columns = work.columns_of(self.lifted)
        wanted = rows.add_columns(*(values[name] for name in columns))
        return sa.insert(self.lifted.source).from_select(columns, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EarlierChange:
    """The change of a row before another one, as it has landed and been lifted."""

    landed: FromClause
    lifted: FromClause


@dataclass(frozen=True, slots=True, kw_only=True)
class _LensImages:
    """What a lens makes of the images of a change."""

    lift: Lift
    lens: Lens
    #: the row of the table, if it is there
    current: sa.TableClause
    before: _EarlierChange | None

    def images(self) -> dict[str, ColumnElement[Any]]:
        """The images of the columns that it makes, by column of the work table."""
        lifted, found = self.lift.lifted, dict[str, ColumnElement[Any]]()
        for name in self.lens.sets:
            place = lifted.columns.index(self._present_name(name)) + 1
            old = self._old_image(name)
            new = case(
                (self._leaves_old_columns(), old), else_=self._evaluated(name, "n")
            )
            found[f"o{place}"] = case((self._has_image("o"), old))
            found[f"n{place}"] = case((self._has_image("n"), new))
        return found

    def unsure(self) -> ColumnElement[bool]:
        """Whether transactions of one unit could make another row one after the other.

        A unit of several has only their first and last values. What they had in between
        matters if the lens makes something else of the old columns than the row has, or
        if it also uses columns that stay.
        """
        several = and_(self.lift.landed.source.c.several, self._has_image("n"))
        if {self.lens.present(self.lift.lifted.table)[n] for n in self.lens.shared} - {
            *self.lift.lifted.identity
        }:
            return several
        other = (
            _text(self._in_the_row(name)).is_distinct_from(
                _text(self._evaluated(name, "o"))
            )
            for name in self.lens.sets
        )
        # In this order: the lens may fail for a value that it need not lift.
        kept = and_(
            several,
            self._has_image("o"),
            self._leaves_old_columns(),
            self._is_as_the_site_saw(),
        )
        return case((kept, sa.or_(*other)), else_=sa.false())

    def _old_image(self, name: str) -> ColumnElement[Any]:
        """The old image of a column: what the row has, if the site saw it so.

        What the lens would make of the site's values may have lost something of that.
        """
        whens = [(self._is_as_the_site_saw(), self._in_the_row(name))]
        if self.before is not None:
            lifted, landed = self.before.lifted, self.before.landed
            goes_on = and_(
                lifted.c.unit.is_not(None),
                *unchanged(
                    self.lens, self._named_values("n", landed), self._named_values("o")
                ),
            )
            done = self.lift.lifted.new(self._present_name(name), lifted)
            whens.insert(0, (goes_on, done))
        return case(*whens, else_=self._evaluated(name, "o"))

    def _has_image(self, side: str) -> ColumnElement[bool]:
        landed = self.lift.landed
        image = landed.old if side == "o" else landed.new
        return image(landed.identity[0]).is_not(None)

    def _is_as_the_site_saw(self) -> ColumnElement[bool]:
        """Whether old columns show the row with the values of the old image."""
        present = self.lens.present(self.lift.lifted.table)
        here = {n: self.current.c[called] for n, called in present.items()}
        key = self.current.c[self.lift.lifted.identity[0]]
        return and_(key.is_not(None), *shown(self.lens, here, self._named_values("o")))

    def _leaves_old_columns(self) -> ColumnElement[bool]:
        """Whether the change leaves the old columns alone."""
        left = unchanged(self.lens, self._named_values("o"), self._named_values("n"))
        return and_(self._has_image("o"), *left)

    def _in_the_row(self, name: str) -> ColumnElement[Any]:
        """A column of the row as it is."""
        return self._cast(name, self.current.c[self._present_name(name)])

    def _evaluated(self, name: str, side: str) -> ColumnElement[Any]:
        """What the lens makes of an image."""
        made = lenses.evaluated(self.lens.sets[name], self._named_values(side))
        return self._cast(name, made)

    def _cast(self, name: str, value: ColumnElement[Any]) -> ColumnElement[Any]:
        # Values of other types that can be assigned have to be cast in a CASE.
        type_ = self.lift.lifted.table.column(self._present_name(name)).staged_type
        return cast(value, type_)

    def _present_name(self, name: str) -> str:
        return self.lens.present(self.lift.lifted.table)[name]

    def _named_values(
        self, side: str, source: FromClause | None = None
    ) -> dict[str, ColumnElement[Any]]:
        """The values of an image by the names in the expressions of the lens."""
        landed = self.lift.landed
        present = self.lens.present(self.lift.lifted.table)
        image = landed.old if side == "o" else landed.new
        found = {name: image(present[name], source) for name in self.lens.shared}
        gone = self.lift.gone
        return found | {
            one.name: image(gone[one.number], source) for one in self.lens.gone
        }


def shown(
    one: Lens,
    here: Mapping[str, ColumnElement[Any]],
    values: Mapping[str, ColumnElement[Any]],
) -> list[ColumnElement[bool]]:
    """Conditions that old columns show a row with the values of an image.

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
        carried: those of its columns that the destination has; not all.
    """
    numbers = queue.target_numbers
    if numbers is None:
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
        holds_null=True,
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
