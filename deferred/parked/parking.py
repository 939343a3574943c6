"""Parking a transaction: copy it from the work tables into the error queue.

PostgreSQL copies the calls inside the database, so parking a transaction of millions of
calls takes this process no more memory than parking a small one.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, Text, select

from deferred.batches import footprint
from deferred.batches.called import stored_again
from deferred.error_catalog import error_call, error_procedure, error_transaction
from deferred.parked import image
from deferred.parked.park_reason import ParkReason
from deferred.procedures.steps import Steps
from sites.transfer import encodings
from sites.transfer.values import unnested
from sites.writing.staged import Staged, selected


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A transaction to be parked: its source, and why it could not be applied."""

    origin_id: uuid.UUID
    origin: str
    origin_transaction: str
    origin_user: str
    batch_no: int
    order_no: int
    start_time: datetime
    why: ParkReason
    #: by replication group, the master at which it began
    sources: Mapping[str, str] | None = None


def park(
    connection: Connection,
    facts: Parked,
    steps: Steps,
    narrower: Mapping[sa.TableClause, Mapping[str, str]],
    gone: Mapping[sa.TableClause, Mapping[str, tuple[int, str | None]]],
) -> int:
    """Store a transaction with all its calls; its origin counts it as delivered.

    Writes error_transaction, error_call, error_procedure and error_footprint.

    Parameters:
        steps: its calls: row changes in work tables, and procedures.
        narrower: as of `Shipment`.
        gone: by work table, the former numbers and the types of columns that this
            database has dropped, and that the images get.

    Returns:
        Its number in the error queue, which operators use.
    """
    why = facts.why
    values = {name: getattr(facts, name) for name in facts.__slots__ if name != "why"}
    values |= {
        "reason": why.reason,
        "error_code": why.code,
        "error_message": encodings.escaped(connection, why.message),
        "waits_for": list(why.waits_for),
        "target_columns": _columns(steps.changed, narrower, gone),
    }
    conflicts = {
        call_no: encodings.escaped(connection, conflict)
        for call_no, conflict in why.conflicts.items()
    }
    error_id: int = connection.execute(
        sa.insert(error_transaction).values(values).returning(error_transaction.c.id)
    ).scalar_one()
    columns = [column.name for column in error_call.columns]
    for staged in steps.changed:
        calls = _calls(staged, steps.rows, error_id, conflicts)
        connection.execute(sa.insert(error_call).from_select(columns, calls))
    for call in steps.calls:
        values = {
            "error_id": error_id,
            "call_no": call.call_no,
            "name": call.name,
            "arguments": encodings.stored(
                stored_again(call), encodings.codec(connection)
            ),
            "ran_here": call.ran_here,
            "error": conflicts.get(call.call_no),
        }
        connection.execute(sa.insert(error_procedure).values(values))
    footprint.write(connection, error_id, facts.origin_id, steps.changed, steps.rows)
    return error_id


def _columns(
    changed: Sequence[Staged],
    narrower: Mapping[sa.TableClause, Mapping[str, str]],
    gone: Mapping[sa.TableClause, Mapping[str, tuple[int, str | None]]],
) -> dict[str, Any]:
    """The columns that calls are for, by table, and the types of their values."""
    found: dict[str, Any] = {}
    for one in changed:
        table, wider = one.table, narrower.get(one.source, {})
        known = found.setdefault(
            str(table.qualified), {"oid": table.oid, "numbers": {}, "types": {}}
        )
        for column in map(table.column, one.columns):
            known["numbers"][column.name] = column.number
            known["types"][column.name] = wider.get(column.name, column.type)
        for name, (number, type_) in gone.get(one.source, {}).items():
            known["numbers"][name], known["types"][name] = number, type_
    return found


def _calls(
    staged: Staged, rows: Mapping[str, Any], error_id: int, conflicts: Mapping[int, str]
) -> sa.Select[*tuple[Any, ...]]:
    """The calls of one table, with the columns in the order of `error_call`."""
    source, target = staged.source, staged.table.sql()
    reasons = unnested(
        "unresolved",
        {
            "call_no": (BigInteger(), list(conflicts)),
            "reason": (Text(), list(conflicts.values())),
        },
    )
    values: list[ColumnElement[Any]] = [
        sa.literal(error_id),
        source.c.call_no,
        sa.literal(staged.table.schema),
        sa.literal(staged.table.name),
        source.c.kind,
        sa.literal(list(staged.identity), sa.ARRAY(Text)),
        *_images(staged, target),
        reasons.c.reason,
    ]
    return (
        select(*values)
        .select_from(
            source.outerjoin(target, staged.same_row(target)).outerjoin(
                reasons, reasons.c.call_no == source.c.call_no
            )
        )
        .where(selected(source, rows))
    )


def _images(staged: Staged, target: sa.TableClause) -> list[ColumnElement[Any]]:
    """The old and the new image, and the master's row; NULL for an absent one."""
    names = staged.columns
    old, new = (
        image.as_json(names, [side(name) for name in names])
        for side in (staged.old, staged.new)
    )
    current = image.as_json(names, [target.c[name] for name in names])
    return [
        sa.case((sa.not_(staged.kind("I", "N")), old)),
        sa.case((sa.not_(staged.kind("D")), new)),
        sa.case((target.c[staged.identity[0]].is_not(None), current)),
    ]
