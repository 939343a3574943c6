"""Rows of a transaction that are left out, while the others are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.batches import work
from deferred.procedures.steps import Steps
from masters.apply import links
from masters.apply.images import chosen

#: Why a row is left out that is in no conflict itself.
REASON = "refers to a row that is left out"


def following(
    connection: Connection, steps: Steps, call_nos: Sequence[int]
) -> set[int]:
    """What refers to rows of a transaction of one step that are to be left out."""
    return links.following(connection, steps.changed, steps.number, call_nos)


def divided(
    connection: Connection, steps: Steps, call_nos: Sequence[int]
) -> tuple[Steps, Steps]:
    """Part a transaction of one step: without some rows, and those rows.

    Writes the work tables: the rows get the negative number of the transaction.
    """
    for staged in steps.units[0].staged:
        connection.execute(
            sa.update(staged.source)
            .values(unit=-steps.number)
            .where(chosen(staged, steps.number, call_nos))
        )
    return _of(connection, steps, steps.number), _of(connection, steps, -steps.number)


def together(connection: Connection, steps: Steps) -> None:
    """Undo `divided`."""
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
