"""Refuses synchronous changes that depend on transactions parked at a master."""

from __future__ import annotations

import uuid

from sqlalchemy import Connection

from deferred.batches import footprint, lost_rows
from deferred.errors import PredecessorLost, WaitsForError
from deferred.parked import error_dependencies
from deferred.procedures.steps import Steps
from masters.apply import ApplyUnit


def refuse(
    connection: Connection, site_id: uuid.UUID, unit: ApplyUnit, master: str
) -> None:
    """Refuse staged changes that start from, or refer to, rows of a parked call.

    A push would park them behind it; here their application can wait.

    Raises:
        WaitsForError, PredecessorLost.
    """
    if not lost_rows.any_parked(connection, site_id):
        return
    steps = Steps(units=[unit])
    found = footprint.relations(connection, site_id, steps.changed, steps.rows)
    relations = [one for one in found.values() if one.certain]
    if any(one.lost for one in relations):
        raise PredecessorLost(f"{error_dependencies.LOST} At {master}.", master=master)
    if relations:
        waits_for = sorted({n for one in relations for n in one.error_ids})
        numbers = ", ".join(map(str, waits_for))
        raise WaitsForError(
            f"The change depends on error transaction {numbers} at {master}.",
            waits_for=waits_for,
            master=master,
        )
