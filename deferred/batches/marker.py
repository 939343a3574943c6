"""The marker: how far a destination has come with an origin's queue.

It is the truth (docs/explanation/exactly-once.md). Every apply locks it first and
moves it in the same transaction, so that two pushers, or one that comes back from
the dead, cannot apply anything twice.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import push_marker, second_way


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The last transaction of an origin that a destination has answered."""

    batch_no: int = 0
    batch_id: uuid.UUID | None = None
    #: order number of the transaction, within the batch
    order_no: int = 0
    #: what the origin brings may have come by another way (`second_way`)
    #: and how often there came to be more to be watched for; 0 if there is nothing
    watched: int = field(default=0, compare=False)


#: Far below deadlock_timeout (1 s by default), so that in a deadlock it is us who give
#: way; so do we behind a row that a user holds, and let go of those we hold.
LOCK_TIMEOUT = "100ms"

#: A pusher that is stopped, or whose machine is gone, keeps no row from users for
#: longer: its session is ended, and the next push goes on.
IDLE_TIMEOUT = "30s"


def read(connection: Connection, origin_id: uuid.UUID) -> Marker:
    """The marker as it stands at the destination; zeros before the first push."""
    return _read(connection, origin_id, lock=False) or Marker()


def lock(connection: Connection, origin_id: uuid.UUID, origin: str) -> Marker:
    """Lock the marker of an origin, before anything else is touched.

    From then on this transaction waits for no lock longer than `LOCK_TIMEOUT`, and
    for its own program no longer than `IDLE_TIMEOUT`.
    """
    found = _read(connection, origin_id, lock=True)
    if found is None:
        make(connection, origin_id, origin)
        found = _read(connection, origin_id, lock=True)
    # Not before: another pusher may take his time.
    _limit(connection)
    return found or Marker()


def make(connection: Connection, origin_id: uuid.UUID, origin: str) -> None:
    """Let an origin have a marker, at its start, if it has none."""
    # What is watched for is counted once nobody is adding to it (`keep_new_out`).
    connection.execute(select(func.pg_advisory_xact_lock_shared(*_first())))
    connection.execute(
        insert(push_marker)
        .values(
            origin_id=origin_id,
            origin=origin,
            watched=select(func.count()).select_from(second_way).scalar_subquery(),
        )
        .on_conflict_do_nothing()
    )


def keep_new_out(connection: Connection) -> None:
    """Wait for those who `make` a marker, and let no more come until the commit.

    To be called before any marker is locked.
    """
    connection.execute(select(func.pg_advisory_xact_lock(*_first())))


def share(connection: Connection, origin_id: uuid.UUID, watched: int) -> bool:
    """Keep others from `lock` until this transaction ends; `advance` is possible.

    For one of several that are at work ahead of their turn, before it touches
    anything else. Time limits are as with `lock`.

    Parameters:
        watched: as it stood when the batch was looked at.

    Returns:
        False where somebody waits in `claim`, to whom the marker should be left, or
        there came to be more to be watched for.
    """
    if not connection.scalar(
        select(func.pg_try_advisory_xact_lock_shared(*_turn(origin_id)))
    ):
        return False
    found = connection.scalar(
        select(push_marker.c.watched)
        .where(_of(origin_id))
        .with_for_update(read=True, key_share=True)
    )
    _limit(connection)
    return found in (None, watched)


def claim(connection: Connection, origin_id: uuid.UUID) -> None:
    """Have those who `share` the marker let go of it soon, before it is locked.

    Without that there is always one who shares it, until a push is over.
    """
    connection.execute(select(func.pg_advisory_xact_lock(*_turn(origin_id))))


def move(connection: Connection, origin_id: uuid.UUID, to: Marker) -> None:
    """Move the marker, which the caller has locked."""
    connection.execute(_moved(origin_id, to))


def advance(
    connection: Connection, origin_id: uuid.UUID, at: Marker, to: Marker
) -> bool:
    """Move the marker, if it still stands where it should; whether it did."""
    here = sa.and_(
        push_marker.c.batch_no == at.batch_no,
        push_marker.c.batch_id.is_not_distinct_from(at.batch_id),
        push_marker.c.order_no == at.order_no,
    )
    return connection.execute(_moved(origin_id, to).where(here)).rowcount == 1


def _limit(connection: Connection) -> None:
    connection.execute(
        select(
            func.set_config("lock_timeout", LOCK_TIMEOUT, True),
            func.set_config("idle_in_transaction_session_timeout", IDLE_TIMEOUT, True),
        )
    )


def _moved(origin_id: uuid.UUID, to: Marker) -> sa.Update:
    return (
        sa.update(push_marker)
        .where(_of(origin_id))
        .values(
            batch_no=to.batch_no,
            batch_id=to.batch_id,
            order_no=to.order_no,
            applied_at=func.clock_timestamp(),
        )
    )


def _turn(origin_id: uuid.UUID) -> tuple[ColumnElement[int], ColumnElement[int]]:
    return func.hashtext("snaptide.marker"), func.hashtext(str(origin_id))


def _first() -> tuple[ColumnElement[int], int]:
    return func.hashtext("snaptide.new_marker"), 0


def _of(origin_id: uuid.UUID) -> sa.ColumnElement[bool]:
    return sa.and_(push_marker.c.origin_id == origin_id, push_marker.c.stream == 0)


def _read(connection: Connection, origin_id: uuid.UUID, *, lock: bool) -> Marker | None:
    at = push_marker.c
    wanted = select(at.batch_no, at.batch_id, at.order_no, at.watched).where(
        _of(origin_id)
    )
    row = connection.execute(wanted.with_for_update() if lock else wanted).one_or_none()
    return None if row is None else Marker(**row._mapping)
