"""The marker: how far a destination has answered a sender's queue.

It is the truth (docs/explanation/exactly-once.md). Every apply locks it first and
moves it in the same transaction, so that two pushers, or one that was believed dead,
cannot apply anything twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import batch, duplicate_watch, push_marker
from sites.sessions.exchange import Answer
from sites.sessions.prepared import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The last transaction of a sender that a destination has answered."""

    batch_no: int = 0
    batch_id: uuid.UUID | None = None
    #: order number of the transaction, within the batch
    order_no: int = 0
    #: how often the watch list (`duplicate_watch`) has grown, whose transactions may
    #: come a second time; 0 if it is empty
    watch_version: int = field(default=0, compare=False)

    def within(self, batch_id: uuid.UUID) -> int:
        """How far a batch is answered, if it is the marker's; else -1."""
        return self.order_no if self.batch_id == batch_id else -1


def answered(connection: Connection, destination: str) -> Marker:
    """The place up to which a destination has answered, as far as the site knows.

    For a site that may not ask the destination any more.
    """
    at = batch.c
    found = connection.execute(
        select(at.number, at.answered)
        .where(at.destination == destination, at.answered > 0)
        .order_by(at.number.desc())
        .limit(1)
    ).one_or_none()
    return Marker(batch_no=found.number, order_no=found.answered) if found else Marker()


#: Far below deadlock_timeout (1 s by default), so that in a deadlock the push gives way
#: and not the user; it also gives way, and releases its rows, if a user holds a row.
LOCK_TIMEOUT = "100ms"

#: A pusher that is stopped, or whose machine is gone, keeps rows locked no longer than
#: this: PostgreSQL ends its session, and the next push goes on.
IDLE_TIMEOUT = "30s"


def read(connection: Connection, sender_id: uuid.UUID) -> Marker:
    """The marker as it stands at the destination; zeros before the first push."""
    return _found(_READ.run(connection, its_id=sender_id)) or Marker()


def settled(connection: Connection, sender_id: uuid.UUID) -> Marker:
    """The marker, when no push moves it any more, and none does until the commit.

    A login of a publication that may not push only reads it.
    """
    may_push = func.has_any_column_privilege("snaptide.push_marker", "UPDATE")
    if not connection.scalar(select(may_push)):
        return read(connection, sender_id)
    request_exclusive(connection, sender_id)
    return _found(_HOLD.run(connection, its_id=sender_id)) or Marker()


def seen(facts: Mapping[str, Any] | None) -> Marker:
    """The same from a row with the column `SEEN`."""
    if facts is None:
        return Marker()
    id_ = facts["batch_id"]
    return Marker(**{**facts, "batch_id": None if id_ is None else uuid.UUID(id_)})


def lock(
    connection: Connection, sender_id: uuid.UUID, sender: str
) -> Callable[[], Marker]:
    """Lock the marker of a sender, before the push touches anything else.

    From then on this transaction waits at most `LOCK_TIMEOUT` for a lock, and may be
    idle for at most `IDLE_TIMEOUT`.

    Returns:
        What the caller calls to get the marker. What it asks of the destination before
        that shares the round trip.
    """
    asked = _LOCK.hold(connection, its_id=sender_id, **_limits())

    def locked() -> Marker:
        found = _found(asked.answer())
        if found is None:
            make(connection, sender_id, sender)
            again = _LOCK.run(connection, its_id=sender_id, **_limits())
            found = _found(again)
        return found or Marker()

    return locked


def make(connection: Connection, sender_id: uuid.UUID, sender: str) -> None:
    """Insert a marker for a sender, at the start, if it has none."""
    # Wait for sessions that add to the watch list (`block_new_markers`), then count it.
    connection.execute(select(func.pg_advisory_xact_lock_shared(*_first())))
    connection.execute(
        insert(push_marker)
        .values(
            origin_id=sender_id,
            origin=sender,
            watched=select(func.count()).select_from(duplicate_watch).scalar_subquery(),
        )
        .on_conflict_do_nothing()
    )


def block_new_markers(connection: Connection) -> None:
    """Wait for sessions that `make` a marker, and block new ones until the commit.

    Call it before any marker is locked.
    """
    connection.execute(select(func.pg_advisory_xact_lock(*_first())))


def lock_shared(
    connection: Connection, sender_id: uuid.UUID, watch_version: int
) -> bool:
    """Keep others from `lock` until this transaction ends; `advance` stays possible.

    A stream that works ahead of its turn calls it before it touches anything else. The
    time limits are those of `lock`.

    Parameters:
        watch_version: the marker's value when the batch was looked at.

    Returns:
        False if another session waits in `request_exclusive` and should get the marker,
        or if the watch list has grown.
    """
    mine = {"its_id": sender_id, **_limits()}
    if not _TAKE_TURN.run(connection, its_name=str(sender_id)).scalar():
        return False
    row = _SHARE.run(connection, **mine).one_or_none()
    if row is None:
        _LIMIT.run(connection, **_limits())
    return row is None or row.watch_version == watch_version


def request_exclusive(connection: Connection, sender_id: uuid.UUID) -> None:
    """Make streams that hold the marker by `lock_shared` release it soon.

    Call it before `lock`: otherwise at least one stream shares the marker at any time
    until the push is over.
    """
    connection.execute(select(func.pg_advisory_xact_lock(*_turn(str(sender_id)))))


def move(
    connection: Connection,
    sender_id: uuid.UUID,
    to: Marker,
    also: sa.Insert | None = None,
) -> None:
    """Move the marker; the caller has locked it.

    Parameters:
        also: what to note in the same statement.
    """
    places = {"its_id": sender_id, **_named("to", to)}
    if also is None:
        _MOVE_ALONE.hold(connection, **places)
    else:
        connection.execute(_MOVE.add_cte(also.cte("noted")), places)


def advance(
    connection: Connection, sender_id: uuid.UUID, at: Marker, to: Marker
) -> bool:
    """Move the marker if it still stands at `at`; return whether it did."""
    places = {**_named("at", at), **_named("to", to)}
    return _ADVANCE.run(connection, its_id=sender_id, **places).rowcount == 1


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


_LIMIT = Prepared(select(*_LIMITS))


#: The columns that say where a marker stands.
_PLACE = ("batch_no", "batch_id", "order_no")


def _named(prefix: str, place: Marker) -> dict[str, object]:
    """A place, as parameters of a statement."""
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


_TAKE_TURN = Prepared(
    select(
        func.pg_try_advisory_xact_lock_shared(
            *_turn(sa.bindparam("its_name", type_=sa.Text))
        )
    )
)


def _first() -> tuple[ColumnElement[int], int]:
    return func.hashtext("snaptide.new_marker"), 0


def _of(sender_id: uuid.UUID | sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
    return push_marker.c.origin_id == sender_id


_ID = sa.bindparam("its_id", type_=push_marker.c.origin_id.type)
_MOVE = sa.update(push_marker).where(_of(_ID)).values(**_given("to"))
_MOVE_ALONE = Prepared(_MOVE)
_ADVANCE = Prepared(
    _MOVE.where(
        *(
            push_marker.c[name].is_not_distinct_from(value)
            for name, value in _given("at").items()
        )
    )
)

_WANTED = select(
    *(push_marker.c[name] for name in _PLACE),
    push_marker.c.watched.label("watch_version"),
).where(_of(_ID))
_READ = Prepared(_WANTED)
_HOLD = Prepared(_WANTED.with_for_update())
#: The same for statements that read other things as well; takes `its_id`.
_SEEN = _WANTED.subquery("seen")
SEEN = (
    select(func.row_to_json(sa.literal_column(_SEEN.name)))
    .select_from(_SEEN)
    .scalar_subquery()
    .label("marker")
)
_LOCKED = _WANTED.with_for_update().subquery()
#: The limits are set after the row is locked, because another pusher may hold it for a
#: long time.
_LOCK = Prepared(select(*_LOCKED.c, *_LIMITS))
_SHARED = _WANTED.with_for_update(read=True, key_share=True).subquery()
_SHARE = Prepared(select(_SHARED.c.watch_version, *_LIMITS))


def _found(answer: Answer) -> Marker | None:
    row = answer.one_or_none()
    if row is None:
        return None
    return Marker(**{name: row._mapping[name] for name in Marker.__slots__})
