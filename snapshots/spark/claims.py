"""Notes of which ranges of a first load are in the table, written with their rows.

Each range is one transaction, which claims the range before it copies. Range 0, the
gate, stands there from the beginning of the load until the transaction that makes the
table one that is loaded; it says which moment is copied. So a process that was believed
dead can neither write rows of its moment into a later load, nor take a table for loaded
that another one has emptied.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sites.names import QualifiedName
from snapshots.spark.catalog import load_range

GATE = 0

#: A base table has one load at a time, with an id made from the table's name: the next
#: load finds the remains of one that died.
_BASE_TABLES = uuid.UUID("6f0c5d0e-5a0b-4b5e-9a43-6a6f61642424")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a load fills, and with which rows."""

    #: stands for the tables that are filled
    id: uuid.UUID
    #: the exported moment of the source, or the id of an image
    moment: str


def load_of(base: QualifiedName, moment: str) -> Load:
    """The load of a snapshot's base table."""
    return Load(id=id_of(base), moment=moment)


def id_of(base: QualifiedName) -> uuid.UUID:
    """The id of all loads of a base table."""
    return uuid.uuid5(_BASE_TABLES, str(base))


def begin(connection: sa.Connection, load: Load) -> None:
    """Open the gate of a load; the one before it has ended (`forget`)."""
    gate = {**_claim(load, GATE), "moment": load.moment}
    connection.execute(sa.insert(load_range).values(gate))


def is_open(connection: sa.Connection, load: Load) -> bool:
    """Whether the load goes on; if so, it cannot end before this transaction."""
    gate = sa.select(load_range.c.moment).where(
        _of(load.id), load_range.c.range_no == GATE
    )
    return connection.scalar(gate.with_for_update(read=True)) == load.moment


def claims(connection: sa.Connection, load: Load, number: int) -> bool:
    """Whether this transaction gets the range; waits for another that is copying it."""
    claim = insert(load_range).values(_claim(load, number)).on_conflict_do_nothing()
    return connection.scalar(claim.returning(load_range.c.range_no)) is not None


def note(connection: sa.Connection, load: Load, number: int, rows: int) -> None:
    """Note how many rows a range has that this transaction has claimed."""
    of_range = _of(load.id) & (load_range.c.range_no == number)
    connection.execute(sa.update(load_range).where(of_range).values(rows=rows))


def done(connection: sa.Connection, load: Load) -> dict[int, int]:
    """The rows of each range that a load has copied, by its number."""
    wanted = sa.select(load_range.c.range_no, load_range.c.rows).where(
        _of(load.id), load_range.c.range_no != GATE
    )
    return {row.range_no: row.rows for row in connection.execute(wanted)}


def end(connection: sa.Connection, load: Load) -> bool:
    """End a load whose ranges are all there; False if another one has begun.

    Writes to `snaptide.load_range`, and commits nothing.
    """
    mine = _of(load.id) & (load_range.c.range_no == GATE)
    gate = sa.delete(load_range).where(mine, load_range.c.moment == load.moment)
    if not connection.execute(gate).rowcount:
        return False
    connection.execute(sa.delete(load_range).where(_of(load.id)))
    return True


def forget(connection: sa.Connection, load_id: uuid.UUID) -> None:
    """End any load of a table: wait for tasks that are writing, and let no other begin.

    Tasks may outlive the process that began the load. Writes to `snaptide.load_range`,
    and commits nothing.
    """
    gate = load_range.c.range_no == GATE
    connection.execute(sa.delete(load_range).where(_of(load_id), gate))
    connection.execute(sa.delete(load_range).where(_of(load_id)))


def _of(load_id: uuid.UUID) -> sa.ColumnElement[bool]:
    return load_range.c.load_id == load_id


def _claim(load: Load, number: int) -> dict[str, object]:
    return {"load_id": load.id, "range_no": number, "rows": 0}
