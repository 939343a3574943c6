"""Rows that a site has made and the master does not have, while the site shows them.

A rule dropped them or gave them another key, or the transaction that made them stood in
the error queue and was given up. What the site sends next may still refer to them, and
must not meet rows that another site made under their keys. So what they were is kept
among the footprints, until a refresh has shown the site what became of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence, Set
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, cast, func, literal, or_, select

from deferred.batches import footprint, forwarding
from deferred.catalog import error_call, error_footprint, error_transaction
from masters.log import registration
from sites.staged import Staged, selected
from sites.types import Xid8

#: Of what no parked transaction holds any more, instead of its number: the transaction
#: here that gave it up, as a negative number.
_LOST = -cast(cast(func.pg_current_xact_id(), Text), sa.BigInteger)


def write(
    connection: Connection,
    origin_id: uuid.UUID,
    staged: Staged,
    rows: Mapping[str, Any],
    moved: Set[str] | None,
) -> None:
    """Store what rows would have made that a rule drops, or names otherwise.

    Until a refresh has shown the site what became of them (`forget`). Writes
    error_footprint.

    Parameters:
        rows: equalities that select them in their work table, as the site made them.
        moved: the columns that get other values; None where the rows are dropped.
    """
    parts: list[footprint.Part] = [
        (literal(footprint.MADE), footprint.given(staged, named, columns))
        for named, columns in footprint.own_keys(staged)
        if moved is None or moved & set(columns)
    ]
    if moved is None or moved & set(staged.identity):
        parts.append(footprint.whole(staged, footprint.MADE))
    entry = footprint.entries(staged, rows, parts)
    values = select(_LOST, literal(origin_id), entry.c.how, entry.c.hash)
    connection.execute(sa.insert(error_footprint).from_select(footprint.STORED, values))


def keep(connection: Connection, error_ids: Sequence[int]) -> None:
    """Keep what parked transactions would have made that are given up.

    Until a refresh has shown the site that. Of those that made no row nothing is kept:
    what comes later meets the rows that it means. Nor of those of a group's masters,
    where no refresh shows anything. Writes error_footprint.
    """
    made = sa.exists().where(
        error_call.c.error_id == error_transaction.c.id,
        error_call.c.kind.not_in(("U", "D", "N")),
    )
    of_site = select(error_transaction.c.id).where(
        selected(error_transaction, {"id": tuple(error_ids)}),
        ~forwarding.began_at_a_master(error_transaction.c.sources),
        made,
    )
    connection.execute(
        sa.update(error_footprint)
        .where(
            error_footprint.c.how == footprint.MADE,
            error_footprint.c.error_id.in_(of_site),
        )
        .values(error_id=_LOST)
    )


def forget(connection: Connection, origin_id: uuid.UUID) -> None:
    """Forget what is lost of a site, as far as its refreshes have seen it.

    Call it when nothing waits at the site that was made before. Writes error_footprint.
    """
    mine = error_footprint.c
    xid = cast(cast(-mine.error_id, Text), Xid8())
    connection.execute(
        sa.delete(error_footprint)
        .where(mine.origin_id == origin_id, mine.error_id < 0)
        .where(registration.seen_by_all(origin_id, xid))
    )


def held(origin_id: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether anything of an origin is parked, or lost."""
    tables = (error_transaction, error_footprint)
    return or_(*(sa.exists().where(one.c.origin_id == origin_id) for one in tables))
