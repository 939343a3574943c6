"""The leases of a site's columns: what is drawn from them, and what is left."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection, func, or_, select

from masters.catalog import number_range, numbered_column
from masters.numbers import columns
from masters.numbers.columns import NumberedColumn
from sites.names import QualifiedName

_column, _range = numbered_column.c, number_range.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Numbers from the first to the last one, with the same step between them."""

    first: int
    last: int
    step: int

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return (self.last - self.first) // self.step + 1


def held(
    connection: Connection, master: uuid.UUID
) -> dict[tuple[QualifiedName, str], list[Stretch]]:
    """The leases that a site has or had from a master, as far as they are kept.

    Returns:
        By table and column of the master.
    """
    last = _range.first + (_range.to_ticket - _range.from_ticket) * _range.step
    rows = connection.execute(
        select(
            _column.table_schema,
            _column.table_name,
            _column.column_name,
            _range.first,
            last.label("last"),
            _range.step,
        )
        .join(numbered_column, _column.id == _range.column_id)
        .where(_range.master_id == master)
        .order_by(_range.id)
    )
    found: dict[tuple[QualifiedName, str], list[Stretch]] = {}
    for row in rows:
        of = QualifiedName(row.table_schema, row.table_name), row.column_name
        one = Stretch(first=row.first, last=row.last, step=row.step)
        found.setdefault(of, []).append(one)
    return found


def store(
    connection: Connection,
    column: NumberedColumn,
    master: uuid.UUID,
    lease: Sequence[Stretch],
) -> None:
    """Let a column use a lease; writes `number_range` and `numbered_column`.

    Tickets that were drawn in vain, while there was no number left, stand for none.
    """
    # Two contacts may bring a lease at once.
    locked = select(_column.id).where(_column.id == column.id).with_for_update()
    connection.execute(locked)
    last = _last_ticket(connection, column.id)
    ticket = max(_drawn(connection, column.id), last) + 1
    in_vain = ticket - 1 - last
    columns.note(connection, column, measured_ticket=_column.measured_ticket + in_vain)
    _prune(connection, column.id)
    parts = []
    for one in lease:
        part = {"from_ticket": ticket, "first": one.first, "step": one.step}
        ticket += one.count
        parts.append({**part, "to_ticket": ticket - 1})
    whose = {"column_id": column.id, "master_id": master}
    connection.execute(sa.insert(number_range).values(whose), parts)
    _warn(connection, column.id, ticket - 1)
    columns.measure(connection, column)


def end(connection: Connection, column: NumberedColumn) -> list[Stretch]:
    """Use no number of a column's leases any more; returns those that were left."""
    drawn = _drawn(connection, column.id)
    left = connection.execute(
        select(number_range)
        .where(_range.column_id == column.id, ~_range.void, _range.to_ticket > drawn)
        .order_by(_range.from_ticket)
    ).all()
    unused = []
    for row in left:
        skipped = max(0, drawn + 1 - row.from_ticket)
        last = row.first + (row.to_ticket - row.from_ticket) * row.step
        first = row.first + skipped * row.step
        unused.append(Stretch(first=first, last=last, step=row.step))
    connection.execute(
        sa.update(number_range)
        .where(_range.column_id == column.id)
        .values(void=True, warn_at=None)
    )
    return unused


def void_all(connection: Connection) -> None:
    """Let no column use its leases: a restored database may have used them already."""
    connection.execute(sa.update(number_range).values(void=True, warn_at=None))


def forget_all(connection: Connection) -> None:
    """Remove all leases: this copy is a new site, and they belong to the original."""
    connection.execute(sa.delete(number_range))


def _drawn(connection: Connection, column_id: int) -> int:
    return connection.execute(
        select(columns.drawn_by(sa.literal(column_id)))
    ).scalar_one()


def _last_ticket(connection: Connection, column_id: int) -> int:
    last = select(func.max(_range.to_ticket)).where(
        _range.column_id == column_id, ~_range.void
    )
    return connection.scalar(last) or 0


def _prune(connection: Connection, column_id: int) -> None:
    """Remove leases that are used up, but the last one of each master.

    A master that is restored is told of it, and gives no earlier number again.
    """
    later = number_range.alias("later")
    connection.execute(
        sa.delete(number_range).where(
            _range.column_id == column_id,
            or_(_range.void, _range.to_ticket <= _drawn(connection, column_id)),
            sa.exists().where(
                later.c.column_id == _range.column_id,
                later.c.master_id == _range.master_id,
                later.c.id > _range.id,
            ),
        )
    )


def _warn(connection: Connection, column_id: int, last: int) -> None:
    """Have users warned when they have used 80 % of what there is now."""
    drawn = _drawn(connection, column_id)
    at = last - (last - drawn) // 5
    within = sa.and_(_range.from_ticket <= at, _range.to_ticket >= at)
    connection.execute(
        sa.update(number_range)
        .where(_range.column_id == column_id, ~_range.void)
        .values(warn_at=sa.case((within, at)))
    )
