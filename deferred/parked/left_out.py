"""Retrying a parked transaction without some of its calls, which stay parked.

The error action `skip_row` does the same when a transaction arrives. What is left keeps
the number of the transaction, so those that wait for it go on waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, func, select

from deferred.batches import footprint, lost_rows, provenance
from deferred.batches.called import ProcedureCall
from deferred.error_catalog import error_call, error_footprint, error_transaction
from deferred.errors import BadEdit, BadSkip, LeftOut
from deferred.parked import error_dependencies, skipped
from deferred.parked.calls import Call
from deferred.procedures.steps import Steps
from masters.apply import links

#: Why a call without a conflict of its own is still parked.
REASON = "left out by an operator"

#: How the message of a transaction begins when calls of it were left out.
_MESSAGE = "Left out by an operator when the other calls were applied."


@dataclass(frozen=True, slots=True, kw_only=True)
class StillParked:
    """The calls of a transaction that a retry does not apply."""

    #: their rows in work tables
    steps: Steps
    #: the numbers of those that the operator named
    chosen: frozenset[int]
    #: the numbers of those that refer to rows of these
    followers: frozenset[int]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all of them."""
        return self.chosen | self.followers


def refuse(
    connection: Connection,
    error_id: int,
    skip: Sequence[int],
    procedures: Sequence[ProcedureCall],
) -> None:
    """Refuse to leave out calls that a transaction does not have, or cannot spare.

    Raises:
        BadSkip: a number is of no call, or the transaction calls procedures, whose rows
            nobody knows.
    """
    if skip and procedures:
        raise BadSkip(
            f"Error transaction {error_id} calls procedures, which may need any of its "
            "rows: retry it whole, with edits if needed, or delete it."
        )
    call = error_call.c
    wanted = select(call.call_no).where(
        call.error_id == error_id, call.call_no == links.any_of(skip)
    )
    if unknown := sorted({*skip} - {*connection.scalars(wanted)}):
        raise BadSkip(
            f"Error transaction {error_id} has no call "
            f"{', '.join(map(str, unknown))} to be left out.",
            unknown=unknown,
        )


def divide(
    connection: Connection, steps: Steps, skip: Sequence[int], edited: Iterable[Call]
) -> tuple[Steps, StillParked]:
    """Divide a staged transaction into what is applied and what stays parked.

    Rows that refer to a key or unique value of a row that is left out stay with it.
    Writes the work tables.

    Parameters:
        edited: the calls that get other values.

    Raises:
        BadSkip: nothing is left to apply.
        BadEdit: a call that is left out gets other values.
    """
    followers = skipped.following(connection, steps, skip)
    numbers = sorted({*skip, *followers})
    refuse_edited(edited, numbers)
    rest, aside = skipped.split_conflicts(connection, steps, numbers)
    if not rest.changed:
        raise BadSkip(
            f"Error transaction {steps.number} has no other calls to apply: to give it "
            "up, delete it.",
            followers=sorted(followers),
        )
    chosen = frozenset(skip)
    others = frozenset(followers) - chosen
    return rest, StillParked(steps=aside, chosen=chosen, followers=others)


def refuse_edited(edited: Iterable[Call], numbers: Iterable[int]) -> None:
    """Refuse new values for calls that are left out.

    Raises:
        BadEdit.
    """
    both = {one.call_no for one in edited} & {*numbers}
    if both:
        raise BadEdit(f"Call {min(both)} is left out, so do not edit it.")


def keep(
    connection: Connection,
    row: Row[Any],
    left: StillParked,
    *,
    at: str,
    lost: str | None,
    keep_made: bool,
) -> None:
    """Keep what is left of a transaction parked, after its other calls were applied.

    Writes error_transaction, error_call and error_footprint.

    Parameters:
        row: the transaction's row in the catalog.
        at: this master.
        lost: as for `error_dependencies.release`, of the calls that were applied.
        keep_made: keep the footprints of rows that they made, as `error_queue.remove`.
    """
    if keep_made:
        lost_rows.keep(connection, [row.id])
    call = error_call.c
    mine = call.error_id == row.id
    numbers = links.any_of(sorted(left.numbers))
    applied = sa.delete(error_call).where(mine, sa.not_(call.call_no == numbers))
    connection.execute(applied)
    chosen = call.call_no == links.any_of(sorted(left.chosen))
    why = sa.case((chosen, REASON), else_=skipped.REASON)
    connection.execute(
        sa.update(error_call)
        .where(mine)
        .values(conflict=func.coalesce(call.conflict, why))
    )
    connection.execute(
        sa.delete(error_footprint).where(error_footprint.c.error_id == row.id)
    )
    steps = left.steps
    footprint.write(connection, row.id, row.origin_id, steps.changed, steps.rows)
    connection.execute(
        sa.update(error_transaction)
        .where(error_transaction.c.id == row.id)
        .values(
            sources=provenance.set_aside(row.sources or {}, at),
            error_message=_message(row.error_message),
            **_reason(row),
        )
    )
    error_dependencies.release(connection, [row.id], lost, in_part=True)


def _reason(row: Row[Any]) -> dict[str, str]:
    """Why it is parked from now on; it neither waits for another nor for a group.

    An operator has to decide about one that depends on lost rows, as before.
    """
    if error_dependencies.has_lost(row):
        return {}
    was_conflict = row.reason == "conflict"
    return {
        "reason": "conflict" if was_conflict else "error",
        "error_code": LeftOut.code,
    }


def _message(before: str) -> str:
    return before if before.startswith(_MESSAGE) else f"{_MESSAGE} {before}"
