"""The marker: how far a destination has come with an origin's queue.

It is the truth (docs/explanation/exactly-once.md). Every apply locks it first and
moves it in the same transaction, so that two pushers, or one that comes back from
the dead, cannot apply anything twice.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import push_marker, second_way
from sites.prepared import planned_once


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
    mine = {"its_id": origin_id, **_limits()}
    if not connection.scalar(_TAKE_TURN, {"its_name": str(origin_id)}):
        return False
    row = connection.execute(_SHARE, mine).one_or_none()
    if row is None:
        connection.execute(_LIMIT, _limits())
    return row is None or row.watched == watched


def claim(connection: Connection, origin_id: uuid.UUID) -> None:
    """Have those who `share` the marker let go of it soon, before it is locked.

    Without that there is always one who shares it, until a push is over.
    """
    connection.execute(select(func.pg_advisory_xact_lock(*_turn(str(origin_id)))))


def move(connection: Connection, origin_id: uuid.UUID, to: Marker) -> None:
    """Move the marker, which the caller has locked."""
    connection.execute(_MOVE, {"its_id": origin_id, **_named("to", to)})


def advance(
    connection: Connection, origin_id: uuid.UUID, at: Marker, to: Marker
) -> bool:
    """Move the marker, if it still stands where it should; whether it did."""
    places = {**_named("at", at), **_named("to", to)}
    return connection.execute(_ADVANCE, {"its_id": origin_id, **places}).rowcount == 1


_LIMITS = (
    func.set_config("lock_timeout", sa.bindparam("lock_timeout", type_=sa.Text), True),
    func.set_config(
        "idle_in_transaction_session_timeout",
        sa.bindparam("idle_timeout", type_=sa.Text),
        True,
    ),
)


def _limits() -> dict[str, str]:
    return {"lock_timeout": LOCK_TIMEOUT, "idle_timeout": IDLE_TIMEOUT}


_LIMIT = planned_once(select(*_LIMITS))


#: What says where a marker stands.
_PLACE = ("batch_no", "batch_id", "order_no")


def _named(prefix: str, place: Marker) -> dict[str, object]:
    """A place, as statements are given it."""
    return {f"{prefix}_{name}": getattr(place, name) for name in _PLACE}


def _given(prefix: str) -> dict[str, sa.BindParameter[Any]]:
    return {
        name: sa.bindparam(f"{prefix}_{name}", type_=push_marker.c[name].type)
        for name in _PLACE
    }


def _turn(
    name: str | sa.BindParameter[str],
) -> tuple[ColumnElement[int], ColumnElement[int]]:
    return func.hashtext("snaptide.marker"), func.hashtext(name)


_TAKE_TURN = planned_once(
    select(
        func.pg_try_advisory_xact_lock_shared(
            *_turn(sa.bindparam("its_name", type_=sa.Text))
        )
    )
)


def _first() -> tuple[ColumnElement[int], int]:
    return func.hashtext("snaptide.new_marker"), 0


def _of(origin_id: uuid.UUID | sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
    return sa.and_(push_marker.c.origin_id == origin_id, push_marker.c.stream == 0)


_ID = sa.bindparam("its_id", type_=push_marker.c.origin_id.type)
_MOVE = planned_once(
    sa.update(push_marker)
    .where(_of(_ID))
    .values(**_given("to"), applied_at=func.clock_timestamp())
)
_ADVANCE = _MOVE.where(
    *(
        push_marker.c[name].is_not_distinct_from(value)
        for name, value in _given("at").items()
    )
)

_WANTED = select(*(push_marker.c[name] for name in Marker.__slots__)).where(_of(_ID))
_READ = planned_once(_WANTED)
_LOCKED = _WANTED.with_for_update().subquery()
#: The limits are set when the row is locked, not before: another pusher may take his
#: time.
_LOCK = planned_once(select(*_LOCKED.c, *_LIMITS))
_SHARED = _WANTED.with_for_update(read=True, key_share=True).subquery()
_SHARE = planned_once(select(_SHARED.c.watched, *_LIMITS))


def _read(connection: Connection, origin_id: uuid.UUID, *, lock: bool) -> Marker | None:
    wanted = _LOCK if lock else _READ
    limits = _limits() if lock else {}
    row = connection.execute(wanted, {"its_id": origin_id, **limits}).one_or_none()
    if row is None:
        return None
    return Marker(**{name: row._mapping[name] for name in Marker.__slots__})
