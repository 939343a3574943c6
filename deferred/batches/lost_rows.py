"""Rows that a site has made and still shows, but that the master does not have.

A rule dropped them or gave them another key, or the transaction that made them stood in
the error queue and was given up. Later transactions of the site may still refer to
them, and must not meet rows that another site made under their keys. So their
footprints are kept until a refresh has shown the site the rows of the master.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence, Set
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, cast, func, literal, or_, select

from deferred.batches import footprint, provenance
from deferred.error_catalog import error_call, error_footprint, error_transaction
from masters.log import registration
from sites.sessions.prepared import Prepared
from sites.transfer.types import Xid8
from sites.writing.staged import Staged, selected

#: Replaces the error transaction's number in the footprints of lost rows: the id of the
#: master's transaction that gave them up, as a negative number.
_LOST = -cast(cast(func.pg_current_xact_id(), Text), sa.BigInteger)


def write(
    connection: Connection,
    sender_id: uuid.UUID,
    staged: Staged,
    rows: Mapping[str, Any],
    moved: Set[str] | None,
) -> None:
    """Store the footprints of rows that a rule drops, or gives another key.

    They are kept until a refresh has shown the site the result (`forget`). Writes
    error_footprint.

    Parameters:
        rows: equalities that select them in their work table, as the site made them.
        moved: the columns that get other values; None if the rows are dropped.
    """
    parts: list[footprint.Part] = [
        (literal(footprint.MADE), footprint.given(staged, named, columns))
        for named, columns in footprint.own_keys(
            staged.table, staged.identity, staged.columns
        )
        if moved is None or moved & set(columns)
    ]
    if moved is None or moved & set(staged.identity):
        parts.append(footprint.whole(staged, footprint.MADE))
    entry = footprint.entries(staged, rows, parts)
    values = select(_LOST, literal(sender_id), entry.c.how, entry.c.hash)
    connection.execute(sa.insert(error_footprint).from_select(footprint.STORED, values))


def keep(connection: Connection, error_ids: Sequence[int]) -> None:
    """Keep the footprints of parked transactions that are given up.

    They are kept until a refresh has shown the site the result. Nothing is kept of
    transactions that made no row, because later changes find the rows they mean; nor
    of transactions of a group's masters, which no refresh shows anything. Writes
    error_footprint.
    """
    made = sa.exists().where(
        error_call.c.error_id == error_transaction.c.id,
        error_call.c.kind.not_in(("U", "D", "N")),
    )
    of_site = select(error_transaction.c.id).where(
        selected(error_transaction, {"id": tuple(error_ids)}),
        ~provenance.began_at_a_master(error_transaction.c.sources),
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


def forget(connection: Connection, sender_id: uuid.UUID) -> None:
    """Delete the footprints of a site's lost rows that its refreshes have seen.

    Call it when no transaction made before them waits at the site. `LOST` says whether
    there are any. Writes error_footprint.
    """
    mine = error_footprint.c
    xid = cast(cast(-mine.error_id, Text), Xid8())
    connection.execute(
        sa.delete(error_footprint)
        .where(mine.origin_id == sender_id, mine.error_id < 0)
        .where(registration.seen_by_all(sender_id, xid))
    )


def any_parked(connection: Connection, sender_id: uuid.UUID) -> bool:
    """Whether a sender has parked transactions or lost rows here."""
    return bool(_ASKED.run(connection, its_id=sender_id).scalar())


def held(sender_id: ColumnElement[Any]) -> ColumnElement[bool]:
    """The condition that a sender has parked transactions or lost rows."""
    tables = (error_transaction, error_footprint)
    return or_(*(sa.exists().where(one.c.origin_id == sender_id) for one in tables))


#: Whether a sender has lost rows, for statements that read more; takes `its_id`.
LOST = (
    sa.exists()
    .where(
        error_footprint.c.origin_id
        == sa.bindparam("its_id", type_=error_footprint.c.origin_id.type),
        error_footprint.c.error_id < 0,
    )
    .label("lost")
)
#: The same as `any_parked`, for statements that read more; takes `its_id`.
ANY_PARKED = held(sa.bindparam("its_id", type_=error_transaction.c.origin_id.type))
_ASKED = Prepared(select(ANY_PARKED))
