"""Sending again what a restored master had got from another one, which may be gone.

After a switch, transactions that the new master had from the former one count as
delivered there. If it is restored to before they came, nobody else may bring them:
they are sent again, or, if they are purged, said to be lost.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, and_, select

from deferred.batches.ledger import original
from deferred.catalog import deferred_transaction, delivery_row, push_marker
from deferred.errors import PastRetention
from deferred.queues.queue import list_queues
from groups.catalog import applied_transaction
from groups.group import find_by_id
from groups.redirect import BY_ANOTHER_WAY, known_there
from groups.relay import duplicate_watch
from groups.relay.duplicate_watch import DuplicateWatch
from groups.relay.ledger import EACH, HAS_COME, NOTED
from sites.sessions import identity
from sites.sessions.site import autocommit


def reopen(origin: Connection, target: Connection, name: str) -> None:
    """Have transactions sent that came to a destination by another way, and are gone.

    Only those that the destination watches for: if the former master still sends one
    on, it is left out. Both connections must be outside a transaction; commits.

    Parameters:
        name: the destination.
    """
    settled = select(delivery_row.c.xid).where(_by_another_way(name))
    with autocommit(origin):
        me = identity.read(origin).name
        any_settled = origin.scalar(select(settled.exists()))
        watches = duplicate_watch.list_watches(origin) if any_settled else []
    mine = [watch for watch in watches if watch.origin == me]
    if mine:
        duplicate_watch.watch_for(target, mine)
    for watch in mine:
        with target.begin(), origin.begin():
            _reopen(origin, target, name, watch)


def _reopen(
    origin: Connection, target: Connection, name: str, watch: DuplicateWatch
) -> None:
    group = find_by_id(target, watch.group_id)
    tables = group.tables if group else ()
    queues = [one for one in list_queues(origin, name) if one.target in tables]
    if not queues:
        return
    taken = duplicate_watch.taken(watch)
    made = deferred_transaction.c
    lost = select(made.xid).where(
        original(made.xid) >= watch.first_no,
        original(made.xid) < watch.end_no,
        sa.not_(known_there(origin, target, taken, queues)),
    )
    origin.execute(
        sa.update(delivery_row)
        .where(_by_another_way(name), delivery_row.c.xid.in_(lost))
        .values(batch=None)
    )


def refuse_gap(origin: Connection, target: Connection, row: Row[Any]) -> None:
    """Make sure that a destination has what came by another way and is purged here.

    What it has not, nobody may bring again. Writes nothing.

    Parameters:
        row: of the destination.

    Raises:
        PastRetention: it was restored to before that came.
    """
    number, me = row.purged_settled, identity.read(origin).name
    if number is None or not any(
        watch.origin == me and watch.first_no <= number < watch.end_no
        for watch in duplicate_watch.list_watches(origin)
    ):
        return
    if not target.scalar(select(_has_come(me, number))):
        raise PastRetention(
            f"{row.name} was restored to before it got changes of this site through "
            "another master. This site no longer keeps them.",
            destination=row.name,
        )


def _has_come(site: str, number: int) -> sa.ColumnElement[bool]:
    """Whether a transaction of a site has come to a master, by whatever way."""
    noted, sender = applied_transaction.c, push_marker.c.origin
    in_batch = select(EACH.c.transaction).select_from(NOTED)
    return sa.or_(
        sa.exists().where(noted.origin == site, noted.transaction == number),
        in_batch.where(
            HAS_COME,
            sa.func.coalesce(EACH.c.origin, sender) == site,
            EACH.c.transaction == number,
        ).exists(),
    )


def _by_another_way(name: str) -> sa.ColumnElement[bool]:
    return and_(
        delivery_row.c.destination == name, delivery_row.c.batch == BY_ANOTHER_WAY
    )
