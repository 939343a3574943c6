"""Promises of answers: how long what a site changes may wait for its master.

The master cannot see what has not come, so the site keeps what its contracts say of
that, and a worker of the site looks once a minute. A change counts from its commit, by
a time that no clock makes jump (`masters.contracts.even_time`).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, cast, func, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import deferred_transaction
from deferred.queues import backlog
from masters.contracts import even_time
from masters.contracts.contract import Promised
from sites import faults
from sites.sessions import identity
from sites.sessions.site import Site
from snapshots.catalog import promise, refresh_group

_at = promise.c

#: Whether a look at answers would look at any.
IS_PROMISED = select(_at.refresh_group).where(_at.answered_within.is_not(None)).exists()


def keep(connection: Connection, group: str, promised: Promised) -> None:
    """Keep at the site what a contract promises. Writes `promise`.

    What the last look at answers has found stays.
    """
    values: dict[str, object] = asdict(promised)
    if promised.answered_within is None:
        values |= {"state": "kept", "looked_at": None, "age": None}
    if promised == Promised():
        connection.execute(sa.delete(promise).where(_at.refresh_group == group))
        return
    made = insert(promise).values(refresh_group=group, **values)
    connection.execute(
        made.on_conflict_do_update(index_elements=[_at.refresh_group], set_=values)
    )


def look_at_answers(site: Site) -> None:
    """Look how long changes of a site wait for answers that contracts promise.

    A change is answered when it was applied, settled by a rule, or parked. No master is
    asked. Without a promise, nothing is written.

    Raises:
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the site cannot
            be asked.
    """
    with identity.initialised(site) as connection:
        rows = connection.execute(
            select(promise, refresh_group.c.master)
            .join(refresh_group)
            .where(_at.answered_within.is_not(None))
            .order_by(_at.refresh_group)
            .with_for_update(of=promise)
        ).all()
        if not rows:
            return
        now = even_time.note(connection)
        for row in rows:
            _look(connection, row, now)
        faults.point("answers.before_commit")


def _look(connection: Connection, row: Row[Any], now: float) -> None:
    waits = backlog.oldest_left(connection, row.master)
    since = None if waits is None else _since(connection, row, waits, now)
    age = 0.0 if since is None else max(now - since, 0.0)
    state = "late" if age > row.answered_within.total_seconds() else "kept"
    values: dict[str, object] = {
        "state": state,
        "looked_at": func.now(),
        "age": age,
        "waits": waits,
        "waits_since": since,
    }
    if state != row.state:
        values["since"] = func.now()
    its = _at.refresh_group == row.refresh_group
    connection.execute(sa.update(promise).where(its).values(values))


def _since(connection: Connection, row: Row[Any], waits: int, now: float) -> float:
    """When a transaction was committed, by its number, in seconds of `even_time`.

    What an earlier look has found for it is used again: notes of positions are kept for
    a week only. If that lies ahead, it is from before a repair of the site, by which
    these seconds begin anew.
    """
    known: float | None = row.waits_since
    if row.waits == waits and known is not None and known <= now:
        return known
    its = deferred_transaction.c
    xid = cast(its.xid, Text).label("xid")
    wanted = select(xid, its.start_time).where(its.order_no == waits)
    found = connection.execute(wanted).one_or_none()
    if found is None:
        # It was answered meanwhile, and a purge that keeps nothing has removed it.
        return now
    return even_time.of_change(connection, found.xid, found.start_time, now)
