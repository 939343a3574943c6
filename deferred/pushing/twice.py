"""Leaving out of a transaction what has come to this master by another way already."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects.postgresql import insert

from deferred.batches import second_way
from deferred.batches.batch import Waiting
from deferred.catalog import queue as queue_catalog
from deferred.catalog import second_way as way_catalog
from deferred.catalog import taken_transaction
from deferred.pushing.origin import Origin
from sites import QualifiedName
from sites.position import STRETCH
from sites.staged import Staged, selected

_log = logging.getLogger(__name__)


def leave_out(
    connection: Connection,
    sender: Origin,
    transaction: Waiting,
    staged: Sequence[Staged],
) -> bool:
    """Empty the work tables of changes that this master has got already.

    Behind the lock of a marker that is watched. What is left is remembered as taken.

    Parameters:
        sender: the site that brings the transaction; it may have been made elsewhere.

    Returns:
        Whether rules may settle conflicts of the rest. Where nobody knows for certain
        whether it has come before, only old values can tell: what does not find them
        is to be parked.
    """
    origin, made_at = transaction.origin or sender.name, transaction.start_time
    units = transaction.units
    certain = True
    for group, complete in _watched(connection, origin, made_at).items():
        changed = _changed(connection, group, sender, staged, units)
        if not changed:
            continue
        values = {
            "replication_group": group,
            "origin": origin,
            "transaction": int(transaction.xid) % STRETCH,
            "made_at": made_at,
        }
        before = _take(connection, values)
        sent_on = transaction.origin is not None
        if before and sent_on and _is_another_part(connection, sender, values):
            # Not for certain: a sender that was restored may send the first again.
            certain = False
            continue
        if before:
            _log.warning(
                "Transaction %s of %s came again, by %s: it is left out",
                transaction.xid,
                origin,
                sender.name,
            )
            for one in changed:
                connection.execute(sa.delete(one.source).where(_of(one, units)))
        elif before is False or not complete:
            certain = False
    return certain


def _watched(
    connection: Connection, origin: str, made_at: datetime
) -> Mapping[str, bool]:
    """The groups in which it may come twice, and whether what has come is known."""
    way = way_catalog.c
    rows = connection.execute(
        select(way.replication_group, way.complete).where(
            way.origin == origin,
            sa.literal(made_at, way.since.type).between(way.since, way.until),
        )
    )
    return {row.replication_group: row.complete for row in rows}


def _changed(
    connection: Connection,
    group: str,
    sender: Origin,
    staged: Sequence[Staged],
    units: Sequence[int],
) -> list[Staged]:
    """The work tables, of tables of a group, in which a transaction has changes.

    A master that is only read has no queue that says which tables these are: there
    the sender, a master itself, knows.
    """
    there = queue_catalog.c
    rows = connection.execute(
        select(there.base_schema, there.base_table).where(
            there.replication_group == group
        )
    )
    tables = {QualifiedName(*row) for row in rows}
    tables |= {table for table, name in sender.groups.items() if name == group}
    return [
        one
        for one in staged
        if one.table.qualified in tables
        and connection.scalar(
            select(select(one.source).where(_of(one, units)).exists())
        )
    ]


def _is_another_part(
    connection: Connection, sender: Origin, values: Mapping[str, Any]
) -> bool:
    """Whether a master that has sent a transaction on sends what it had parked of it.

    By skip_row it sent the other rows at first, and those once they were retried. What
    it has got by two ways it has taken once itself.
    """
    first = second_way.first_sender(
        connection, values["origin"], values["transaction"], values["made_at"]
    )
    return first == sender.name


def _of(one: Staged, units: Sequence[int]) -> sa.ColumnElement[bool]:
    return selected(one.source, {"unit": tuple(units)})


def _take(connection: Connection, values: Mapping[str, object]) -> bool | None:
    """Remember that a transaction has come.

    Returns:
        None if it had not; else whether that it had is certain.
    """
    new = insert(taken_transaction).values(**values, certain=True)
    if connection.execute(new.on_conflict_do_nothing()).rowcount:
        return None
    row = taken_transaction.c
    here = and_(*(row[name] == value for name, value in values.items()))
    before = bool(connection.scalar(select(row.certain).where(here)))
    connection.execute(sa.update(taken_transaction).where(here).values(certain=True))
    return before
