"""Says what cannot be told because a master of the group is away.

Its own queue cannot be read. What it brought to the others is in their ledgers, by
transaction; the rows are not.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy import FromClause, Text, cast, func, select

from deferred.catalog import deferred_transaction, push_marker
from groups.check import queued
from groups.check.moments import Held, Moment
from groups.relay.ledger import EACH, HAS_COME, NOTED
from sites import QualifiedName
from sites.extras import pa
from sites.words import counted, does


def sent_on_by(held: Held, table: QualifiedName, wanted: FromClause) -> dict[int, str]:
    """By number of a wanted key, why it cannot be told where a change of it has come.

    It goes over a master that is away.
    """
    found: dict[int, str] = {}
    made = deferred_transaction.c
    for one in held.masters:
        for queue in held.queues[one.name]:
            away = queue.destination
            forwarded = _forwarded(held, away)
            if queue.target != table or away not in held.away or not forwarded:
                continue
            calls = queued.of_keys(queue, wanted).subquery("calls")
            began = made.sources[str(held.group.id)].astext
            source = func.coalesce(func.nullif(began, ""), one.name)
            query = (
                select(calls.c.no)
                .join(deferred_transaction, made.xid == calls.c.xid)
                .where(source.in_(forwarded))
            )
            for number in one.later.scalars(query):
                found[number] = f"{away}, which sends its changes on, is away"
    return found


def brought(held: Held) -> Iterator[str]:
    """Say which masters lack transactions that a master that is away has brought."""
    for away in held.away:
        for one in held.masters:
            mine = _come(one, away)
            for other in held.masters:
                if other is one or not mine.num_rows:
                    continue
                theirs = _come(other)
                names = mine.column_names
                missing = mine.join(theirs, keys=names, join_type="left anti")
                count = missing.num_rows - sum(
                    origin == other.name for origin in missing["origin"].to_pylist()
                )
                if count:
                    yield (
                        f"{away} is away, and has brought "
                        f"{counted(count, 'transaction')} to {one.name} that "
                        f"{does(count, 'have')} not come to {other.name}"
                    )


def _forwarded(held: Held, name: str) -> list[str]:
    """The masters whose changes a master sends on."""
    ways = held.group.paths
    return sorted({way.source for way in ways if way.source != way.local == name})


def _come(one: Moment, sender: str | None = None) -> pa.Table:
    """The transactions that have come to a master at its moment, from one or from all.

    By the site where they were made, and their numbers there.
    """
    origin = func.coalesce(EACH.c.origin, push_marker.c.origin)
    query = (
        select(
            cast(origin, Text).label("origin"), EACH.c.transaction.label("transaction")
        )
        .select_from(NOTED)
        .where(
            HAS_COME,
            EACH.c.transaction.is_not(None),
            sa.true() if sender is None else push_marker.c.origin == sender,
        )
        .distinct()
    )
    shape = pa.schema([("origin", pa.string()), ("transaction", pa.int64())])
    return one.side.read(query, shape, many=False)
