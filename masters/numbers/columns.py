"""The columns of a site whose defaults draw numbers, and the numbers that are left."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import BigInteger, Connection, cast, func, select

from masters.catalog import number_range, numbered_column
from sites import configured
from sites.catalog import SCHEMA
from sites.names import QualifiedName
from sites.sessions.exchange import raw

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
        """Whether the next contact leases numbers: the reserve is opened, or too small.

        The last one was made for the use of its time; a site may use more by now.
        """
        reserve = max(self.size, self.wanted)
        return self.method is Method.LEASE and self.left < reserve

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
    return default_of(made, method)


def default_of(number: int, method: Method) -> str:
    """The default of a column that draws numbers, as SQL.

    Parameters:
        number: the id of the column here.
    """
    if method is Method.UUIDV7:
        return f"{SCHEMA}.uuidv7()"
    return f"{SCHEMA}.next_number({number})"


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


def note(connection: Connection, column: NumberedColumn, **values: object) -> None:
    """Note facts about a column that draws numbers."""
    connection.execute(
        sa.update(numbered_column).where(_column.id == column.id).values(values)
    )


def move(connection: Connection, snapshots: Sequence[str], master: str) -> None:
    """Have the columns of snapshots lease their numbers from another master."""
    connection.execute(
        sa.update(numbered_column)
        .where(_column.snapshot.in_(snapshots))
        .values(master=master, told_to=None, last_error=None)
    )


def drawn_by(column_id: Any) -> sa.ColumnElement[int]:
    """The ticket that was drawn last; 0 before the first one."""
    named = sa.cast(sa.literal(f"{SCHEMA}.numbers_").concat(column_id), _REGCLASS)
    return func.coalesce(func.pg_sequence_last_value(named, type_=BigInteger), 0)


def measure(connection: Connection, column: NumberedColumn) -> None:
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
        .values(measured_at=func.now(), measured_ticket=drawn_by(sa.literal(column.id)))
    )


def _tickets(column_id: object) -> sql.Identifier:
    return sql.Identifier(SCHEMA, f"numbers_{column_id}")


_REGCLASS = sa.dialects.postgresql.REGCLASS

_DRAWN = drawn_by(_column.id)
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
