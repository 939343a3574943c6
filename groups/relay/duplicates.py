"""Leaving out changes of a transaction that this master already got by another way."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches import provenance
from deferred.batches.batch import QueuedTransaction
from deferred.batches.provenance import Sender
from deferred.catalog import duplicate_watch
from deferred.catalog import queue as queue_catalog
from deferred.parked import differing
from groups.catalog import applied_transaction
from sites import QualifiedName
from sites.capture.position import STRETCH
from sites.writing.key_objects import staged_keys
from sites.writing.staged import UPDATES, Staged, selected

_log = logging.getLogger(__name__)


def drop_already_applied(
    target: Connection,
    sender: Sender,
    transaction: QueuedTransaction,
    staged: Sequence[Staged],
) -> bool:
    """Delete from the work tables the changes that this master has already taken.

    The caller holds the lock of a marker that is watched. The remaining changes are
    recorded as taken, table by table: changes of two tables may come by different ways.

    Parameters:
        sender: the site that brings the transaction; it may have been made elsewhere.

    Returns:
        Whether rules may settle conflicts of the rest. If it is not certain whether
        the transaction has come before, only old values can tell: a change that does
        not find them is to be parked.
    """
    origin, number = transaction.origin or sender.name, int(transaction.xid) % STRETCH
    units = transaction.units
    certain = True
    for group, known in _watched(target, origin, number).items():
        for one in _changed(target, group, sender, staged, units):
            values = {
                "group_id": group,
                "origin": origin,
                "transaction": number,
                "made_at": transaction.start_time,
                "target": str(one.table.qualified),
                "part": provenance.part(transaction.sources),
            }
            brought = sender.name if transaction.origin is not None else None
            before = _take(target, values, brought)
            if before:
                _log.warning(
                    "Transaction %s of %s arrived again through %s: its changes of "
                    "%s are left out",
                    transaction.xid,
                    origin,
                    sender.name,
                    one.table.qualified,
                )
                _list_what_differs(target, group, one, units, transaction.xid, origin)
                target.execute(sa.delete(one.source).where(_of(one, units)))
            elif before is False or not known:
                certain = False
    return certain


def _list_what_differs(
    target: Connection,
    group: uuid.UUID,
    one: Staged,
    units: Sequence[int],
    xid: str,
    origin: str,
) -> None:
    """List the rows that this master does not have as changes made them.

    What came before may have been given up in the error queue, or edited, when its
    rows were the same everywhere, because no other master had the transaction yet.
    """
    why = (
        f"transaction {xid} of {origin} has come here before, and other masters may"
        " have it as it was"
    )
    keys = staged_keys(one, and_(_of(one, units), _is_otherwise(one)))
    differing.note_keys(target, group, one.table.qualified, keys, why)


def _is_otherwise(one: Staged) -> sa.ColumnElement[bool]:
    """Whether the master's row is not as a change would leave it."""
    here = one.table.sql().alias("here")
    as_made = sa.exists().where(
        *(here.c[name] == one.new(name) for name in one.identity),
        *(
            sa.or_(
                one.table.column(name).unchanged(one.old(name), one.new(name)),
                one.table.column(name).unchanged(here.c[name], one.new(name)),
            )
            for name in one.columns
        ),
    )
    still = sa.exists().where(one.same_row(here))
    return sa.case(
        (one.kind("D"), still), (one.kind("I", "R", *UPDATES), ~as_made), else_=False
    )


def _watched(
    connection: Connection, origin: str, number: int
) -> Mapping[uuid.UUID, bool]:
    """The groups in which a transaction may come twice, and whether arrivals are known.

    False for a group if the transaction may have come before they were recorded.
    """
    watch = duplicate_watch.c
    rows = connection.execute(
        select(watch.group_id, watch.known_from).where(
            watch.origin == origin, watch.first_no <= number, watch.end_no > number
        )
    )
    return {row.group_id: row.known_from <= number for row in rows}


def _changed(
    connection: Connection,
    group: uuid.UUID,
    sender: Sender,
    staged: Sequence[Staged],
    units: Sequence[int],
) -> list[Staged]:
    """The work tables, for tables of a group, in which a transaction has changes.

    A master that is only read has no queue that lists the group's tables; for that case
    the sender, a master itself, names them.
    """
    there = queue_catalog.c
    rows = connection.execute(
        select(there.base_schema, there.base_table).where(there.group_id == group)
    )
    tables = {QualifiedName(*row) for row in rows}
    tables |= {table for table, its in sender.groups.items() if its == group}
    return [
        one
        for one in staged
        if one.table.qualified in tables
        and connection.scalar(
            select(select(one.source).where(_of(one, units)).exists())
        )
    ]


def _of(one: Staged, units: Sequence[int]) -> sa.ColumnElement[bool]:
    return selected(one.source, {"unit": tuple(units)})


def _take(
    connection: Connection, values: Mapping[str, Any], brought: str | None
) -> bool | None:
    """Remember that changes of a table have come.

    Parameters:
        brought: the sender, if it sends on a transaction that was made elsewhere.

    Returns:
        None if they had not come before; else whether it is certain that they had.
    """
    row = applied_transaction.c
    new = insert(applied_transaction).values(**values, certain=True)
    if not connection.execute(new.on_conflict_do_nothing()).rowcount:
        return True
    whole = {**values, "target": ""}
    here = and_(*(row[name] == value for name, value in whole.items()))
    found = connection.execute(
        select(row.certain, row.sender).where(here)
    ).one_or_none()
    if found is None:
        return None
    return bool(found.certain or (brought and brought == found.sender))
