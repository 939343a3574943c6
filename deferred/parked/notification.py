"""Reporting conflicts that no rule settled: log events, and hooks of the operator.

A hook is a function that the operator installed. It is called in the process that
pushes, after the transaction was parked and committed, at least once: the next push
reports conflicts that a crash left out. A hook that raises, or takes too long, is
logged and called again by the next pushes; it never stops a push.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, func, select

from deferred.error_catalog import error_call, error_transaction
from masters.errors import UnusableRoutine
from masters.resolution.registry import Registry
from sites import QualifiedName, time_limit

#: How long a hook may take for one conflict, and all hooks in one push, in seconds.
SECONDS = 5.0
ALTOGETHER = 30.0

#: The most conflicts of a transaction that hooks get; the log says how many there are.
MOST = 100

#: How often hooks are called before a transaction counts as reported.
ATTEMPTS = 5

Image = Mapping[str, str | None]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedConflict:
    """One call of a parked transaction that no rule settled."""

    #: the number of the transaction in the master's error queue
    error_id: int
    master: str
    origin: str
    origin_transaction: str
    origin_user: str
    parked_at: datetime
    #: None, without table and images, if it is not known which call it is
    call_no: int | None
    table: str
    #: I insert, U update, D delete, R delete and insert
    kind: str
    #: the conflicts of the row, and the answer of each rule
    reason: str
    old: Image | None
    new: Image | None
    #: the master's row when the transaction was parked
    current: Image | None


#: The return value is ignored.
Hook = Callable[[ParkedConflict], object]

REGISTRY = Registry[Hook]("snaptide.notification", "hook")


def announce(connection: Connection, master: str, sender_id: uuid.UUID) -> None:
    """Report the conflicts of an origin that were not reported yet.

    Commits after each transaction. Writes error_transaction.

    Parameters:
        connection: to the master, without an open transaction.
    """
    until = time.monotonic() + ALTOGETHER
    untold = _untold(connection, sender_id)
    connection.commit()
    for row in untold:
        conflicts = _conflicts(connection, master, row)
        connection.commit()
        failed = [
            name
            for name, hook in _hooks()
            if not _tell(name, hook, conflicts, until=until)
        ]
        _log(row, master, conflicts)
        with connection.begin():
            _note(connection, row.id, told=not failed)


_NEW = sa.and_(
    error_transaction.c.origin_id
    == sa.bindparam("its_id", type_=error_transaction.c.origin_id.type),
    error_transaction.c.reason == "conflict",
    error_transaction.c.told_at.is_(None),
)

#: The columns that a report needs, which masters of earlier revisions have, too.
_SHOWN = [
    error_transaction.c[name]
    for name in (
        *("id", "origin", "origin_transaction", "origin_user", "parked_at"),
        *("error_message", "tellings"),
    )
]

#: Whether an earlier push has left conflicts of an origin, `its_id`, unreported.
UNTOLD = sa.exists().where(_NEW).label("untold")


def _untold(connection: Connection, sender_id: uuid.UUID) -> Sequence[Row[Any]]:
    wanted = select(*_SHOWN).where(_NEW).order_by(error_transaction.c.id)
    return connection.execute(wanted, {"its_id": sender_id}).all()


def _conflicts(
    connection: Connection, master: str, row: Row[Any]
) -> list[ParkedConflict]:
    calls = connection.execute(
        select(error_call)
        .where(error_call.c.error_id == row.id, error_call.c.conflict.is_not(None))
        .order_by(error_call.c.call_no)
        .limit(MOST)
    ).all()
    shared = {
        name: getattr(row, name)
        for name in ("origin", "origin_transaction", "origin_user", "parked_at")
    }
    shared |= {"error_id": row.id, "master": master}
    return [
        ParkedConflict(
            **shared,
            call_no=call.call_no,
            table=str(QualifiedName(call.target_schema, call.target_table)),
            kind=call.kind,
            reason=call.conflict,
            old=call.old_values,
            new=call.new_values,
            current=call.current_values,
        )
        for call in calls
    ] or [
        ParkedConflict(
            **shared,
            call_no=None,
            table="",
            kind="",
            reason=row.error_message,
            old=None,
            new=None,
            current=None,
        )
    ]


def _hooks() -> Iterator[tuple[str, Hook]]:
    for name in REGISTRY.names():
        try:
            hook = REGISTRY.find(name)
        except UnusableRoutine as error:
            log.warning("Hook %s cannot be used: %s", name, error.message)
        else:
            if hook is not None:
                yield name, hook


def _tell(
    name: str, hook: Hook, conflicts: Sequence[ParkedConflict], *, until: float
) -> bool:
    """Call a hook for each conflict; return whether it took them all."""
    for one in conflicts:
        left = until - time.monotonic()
        if left <= 0:
            return False
        try:
            time_limit.call(f"{REGISTRY.group}:{name}", hook, one, min(SECONDS, left))
        except Exception as error:  # whatever the user's code raises
            log.warning("Hook %s, error %s: %r", name, one.error_id, error)
            return False
    return True


def _log(row: Row[Any], master: str, conflicts: Sequence[ParkedConflict]) -> None:
    if row.tellings:
        return  # logged before; only a hook is called again
    for one in conflicts:
        log.warning(
            "Unresolved conflict at %s: error %s of %s, call %s %s: %s",
            master,
            row.id,
            row.origin,
            one.call_no,
            one.table,
            one.reason,
        )
    if len(conflicts) == MOST:
        log.warning("Error %s at %s: %s", row.id, master, row.error_message)


def _note(connection: Connection, error_id: int, *, told: bool) -> None:
    tellings = error_transaction.c.tellings + 1
    over = sa.or_(sa.literal(told), tellings >= ATTEMPTS)
    connection.execute(
        sa.update(error_transaction)
        .where(error_transaction.c.id == error_id)
        .values(tellings=tellings, told_at=sa.case((over, func.now())))
    )
