"""Leaving out some rows of a transaction, while its other rows are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.batches import work
from deferred.procedures.steps import Steps
from masters.apply import links
from masters.apply.images import chosen

#: Why a row without a conflict of its own is left out.
REASON = "refers to a row that is left out"


def following(
    connection: Connection, steps: Steps, call_nos: Sequence[int]
) -> set[int]:
    """The calls of a one-step transaction that refer to rows to be left out."""
    return links.following(connection, steps.changed, steps.number, call_nos)


def split_conflicts(
    connection: Connection, steps: Steps, call_nos: Sequence[int]
) -> tuple[Steps, Steps]:
    """Split a one-step transaction: the rest, and the rows of the given calls.

    Writes the work tables: those rows get the negative number of the transaction.
    """
    for staged in steps.units[0].staged:
        connection.execute(
            sa.update(staged.source)
            .values(unit=-steps.number)
            .where(chosen(staged, steps.number, call_nos))
        )
    return _of(connection, steps, steps.number), _of(connection, steps, -steps.number)


def rejoin(connection: Connection, steps: Steps) -> None:
    """Undo `split_conflicts`."""
    for staged in steps.units[0].staged:
        source = staged.source
        connection.execute(
            sa.update(source)
            .values(unit=steps.number)
            .where(source.c.unit == -steps.number)
        )


def _of(connection: Connection, steps: Steps, number: int) -> Steps:
    unit = steps.units[0]
    counts = work.counts(connection, unit.staged, number)
    return Steps(units=[replace(unit, number=number, counts=counts)])
