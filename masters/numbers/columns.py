"""The columns of a site whose defaults draw numbers, and the numbers that are left."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import BigInteger, Connection, cast, func, or_, select

from masters.catalog import number_range, numbered_column
from sites import configured
from sites.catalog import SCHEMA
from sites.names import QualifiedName
from sites.transport import raw

#: The fewest numbers of a lease.
FEWEST = 1000
#: The most that a contact leases without being asked: some ten seconds of drawing.
MOST = 10_000_000

_column, _range = numbered_column.c, number_range.c


class Method(StrEnum):
    """How a column of a snapshot gets a value that an insert does not give."""

    #: numbers leased out of the sequence of the master's column
    LEASE = "lease"
    #: a uuid that begins with the time
    UUIDV7 = "uuidv7"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedColumn:
    """A column of a snapshot whose default gives numbers or ids."""

    id: int
    snapshot: str
    column_name: str
    method: Method
    #: the site that leases the numbers, and the table there
    master: str
    table: QualifiedName
    #: how many numbers may still be used
    left: int
    #: how many there were when the last lease came, the ones left then included
    size: int
    #: how many are used a day
    per_day: float
    #: the incarnation of the master that has all leases of the column in its ledger
    told_to: uuid.UUID | None
    #: why the last contact brought none
    last_error: str | None

    @property
    def name(self) -> str:
        """Snapshot and column, as commands take it."""
        return f"{self.snapshot}.{self.column_name}"

    @property
    def lasts_days(self) -> float | None:
        """How many days the numbers last at this rate; None if none were used."""
        return self.left / self.per_day if self.per_day else None

    @property
    def due(self) -> bool:
        """Whether the next contact leases numbers: the reserve is opened."""
        return self.method is Method.LEASE and self.left < self.size

    @property
    def wanted(self) -> int:
        """How many numbers a lease should have, by the use and the days away."""
        use = 2 * self.per_day * configured.days_away()
        return int(min(max(FEWEST, use), MOST))


def define(
    connection: Connection,
    *,
    snapshot: str,
    column: str,
    method: Method,
    master: str,
    table: QualifiedName,
) -> str:
    """Note that a column draws numbers; they come with the next contact.

    Returns:
        The default of the column, as SQL.
    """
    if method is Method.UUIDV7:
        default = f"{SCHEMA}.uuidv7()"
    made = connection.scalar(
        sa.insert(numbered_column)
        .values(
            snapshot=snapshot,
            column_name=column,
            method=method,
            master=master,
            table_schema=table.schema,
            table_name=table.name,
        )
        .returning(_column.id)
    )
    if method is Method.LEASE:
        statement = sql.SQL("CREATE SEQUENCE {}").format(_tickets(made))
        raw(connection).execute(statement)
        default = f"{SCHEMA}.next_number({made})"
    return default


def remove(connection: Connection, snapshot: str, column: str | None = None) -> None:
    """Forget a column that drew numbers, or all of a snapshot.

    Its default must be gone. Numbers that are left are lost.
    """
    gone = connection.execute(
        sa.delete(numbered_column)
        .where(
            _column.snapshot == snapshot,
            sa.true() if column is None else _column.column_name == column,
        )
        .returning(_column.id)
    )
    for one in gone.scalars().all():
        statement = sql.SQL("DROP SEQUENCE IF EXISTS {}").format(_tickets(one))
        raw(connection).execute(statement)


def draws_from(master: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether columns of this site draw numbers that a master leases."""
    found = sa.exists().where(
        _column.master == master, _column.method == Method.LEASE.value
    )
    return found.correlate_except(numbered_column)


def all_of(
    connection: Connection, master: str | None = None, snapshot: str | None = None
) -> list[NumberedColumn]:
    """The columns of a site that draw numbers, by snapshot and name.

    Parameters:
        master, snapshot: only those of one of them.
    """
    conditions = []
    if master is not None:
        conditions.append(_column.master == master)
    if snapshot is not None:
        conditions.append(_column.snapshot == snapshot)
    rows = connection.execute(_STATE.where(*conditions))
    return [_from_row(row) for row in rows]


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
    note(connection, column, measured_ticket=_column.measured_ticket + in_vain)
    _prune(connection, column.id)
    parts = []
    for one in lease:
        part = {"from_ticket": ticket, "first": one.first, "step": one.step}
        ticket += one.count
        parts.append({**part, "to_ticket": ticket - 1})
    whose = {"column_id": column.id, "master_id": master}
    connection.execute(sa.insert(number_range).values(whose), parts)
    _warn(connection, column.id, ticket - 1)
    _measure(connection, column)


def note(connection: Connection, column: NumberedColumn, **values: object) -> None:
    """Note facts about a column that draws numbers."""
    connection.execute(
        sa.update(numbered_column).where(_column.id == column.id).values(values)
    )


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


def move(connection: Connection, snapshots: Sequence[str], master: str) -> None:
    """Have the columns of snapshots lease their numbers from another master."""
    connection.execute(
        sa.update(numbered_column)
        .where(_column.snapshot.in_(snapshots))
        .values(master=master, told_to=None, last_error=None)
    )


def _tickets(column_id: object) -> sql.Identifier:
    return sql.Identifier(SCHEMA, f"numbers_{column_id}")


def _drawn_by(column_id: Any) -> sa.ColumnElement[int]:
    """The ticket that was drawn last; 0 before the first one."""
    named = sa.cast(sa.literal(f"{SCHEMA}.numbers_").concat(column_id), _REGCLASS)
    return func.coalesce(func.pg_sequence_last_value(named, type_=BigInteger), 0)


def _drawn(connection: Connection, column_id: int) -> int:
    return connection.execute(select(_drawn_by(sa.literal(column_id)))).scalar_one()


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


def _measure(connection: Connection, column: NumberedColumn) -> None:
    """Note the use a day, and the size of the leases that it calls for."""
    connection.execute(
        sa.update(numbered_column)
        .where(_column.id == column.id)
        .values(size=column.wanted, per_day=column.per_day, last_error=None)
    )
    connection.execute(
        sa.update(numbered_column)
        .where(
            _column.id == column.id,
            _column.measured_at < func.now() - sa.text("interval '1 day'"),
        )
        .values(
            measured_at=func.now(), measured_ticket=_drawn_by(sa.literal(column.id))
        )
    )


_REGCLASS = sa.dialects.postgresql.REGCLASS

_DRAWN = _drawn_by(_column.id)
_LEFT = (
    select(
        func.sum(
            _range.to_ticket - func.greatest(_range.from_ticket - 1, _DRAWN),
        )
    )
    .where(_range.column_id == _column.id, ~_range.void, _range.to_ticket > _DRAWN)
    .correlate(numbered_column)
    .scalar_subquery()
)
_LAST = (
    select(func.coalesce(func.max(_range.to_ticket), 0))
    .where(_range.column_id == _column.id, ~_range.void)
    .correlate(numbered_column)
    .scalar_subquery()
)
_DAYS = func.extract("epoch", func.now() - _column.measured_at) / 86400.0
#: In less than a day so many may come in an hour.
_PER_DAY = func.greatest(
    sa.case((_DAYS < 1, _column.per_day), else_=0),
    (func.least(_DRAWN, _LAST) - _column.measured_ticket) / func.greatest(_DAYS, 1),
)
_IF_LEASED = _column.method == Method.LEASE.value
_STATE: sa.Select[Any] = select(
    *(c for c in numbered_column.c if c.name not in ("per_day",)),
    cast(sa.case((_IF_LEASED, func.coalesce(_LEFT, 0)), else_=0), BigInteger).label(
        "left"
    ),
    cast(sa.case((_IF_LEASED, _PER_DAY), else_=0), sa.Double).label("per_day"),
).order_by(_column.snapshot, _column.column_name)


def _from_row(row: sa.Row[Any]) -> NumberedColumn:
    return NumberedColumn(
        id=row.id,
        snapshot=row.snapshot,
        column_name=row.column_name,
        method=Method(row.method),
        master=row.master,
        table=QualifiedName(row.table_schema, row.table_name),
        left=row.left,
        size=row.size,
        per_day=row.per_day,
        told_to=row.told_to,
        last_error=row.last_error,
    )
