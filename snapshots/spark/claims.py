"""Notes of which ranges of a first load are in the table, written with their rows.

Each range is one transaction, which claims the range before it copies. Range 0, the
gate, stands there from the beginning of the load to its end; without it nothing is
copied any more, so a process that was believed dead cannot write into a later load.
"""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from snapshots.spark.catalog import load_range

GATE = 0


def begin(connection: sa.Connection, load: uuid.UUID) -> None:
    """Open the gate of a load."""
    connection.execute(sa.insert(load_range).values(_claim(load, GATE)))


def is_open(connection: sa.Connection, load: uuid.UUID) -> bool:
    """Whether the load goes on; if so, it cannot end before this transaction."""
    of_gate = (load_range.c.load_id == load) & (load_range.c.range_no == GATE)
    gate = sa.select(load_range.c.range_no).where(of_gate)
    return connection.scalar(gate.with_for_update(read=True)) is not None


def claims(connection: sa.Connection, load: uuid.UUID, number: int) -> bool:
    """Whether this transaction gets the range; waits for another that is copying it."""
    claim = insert(load_range).values(_claim(load, number)).on_conflict_do_nothing()
    return connection.scalar(claim.returning(load_range.c.range_no)) is not None


def note(connection: sa.Connection, load: uuid.UUID, number: int, rows: int) -> None:
    """Note how many rows a range has that this transaction has claimed."""
    of_range = (load_range.c.load_id == load) & (load_range.c.range_no == number)
    connection.execute(sa.update(load_range).where(of_range).values(rows=rows))


def done(connection: sa.Connection, load: uuid.UUID) -> dict[int, int]:
    """The rows of each range that a load has copied, by its number."""
    wanted = sa.select(load_range.c.range_no, load_range.c.rows).where(
        load_range.c.load_id == load, load_range.c.range_no != GATE
    )
    return {row.range_no: row.rows for row in connection.execute(wanted)}


def forget(connection: sa.Connection, load_id: uuid.UUID) -> None:
    """End a load: wait for its tasks that are writing, and let no other begin.

    Writes to `snaptide.load_range`, and commits nothing.
    """
    of_load = load_range.c.load_id == load_id
    gate = sa.delete(load_range).where(of_load, load_range.c.range_no == GATE)
    connection.execute(gate)
    connection.execute(sa.delete(load_range).where(of_load))


def _claim(load: uuid.UUID, number: int) -> dict[str, object]:
    return {"load_id": load, "range_no": number, "rows": 0}
