"""Making a site's queue and its destination agree after one of them was restored.

The destination knows what it has applied: its marker, its ledger and the applied rows
are in one database, and are restored together. So the site asks it, transaction by
transaction. Answered transactions count as delivered; all others that the site still
has are pushed again, in order, in new batches after the marker
(docs/explanation/identity.md).
"""

from __future__ import annotations

import uuid
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, func, select

from deferred.batches import batch as batches
from deferred.batches import ledger, marker, relay, same_destination
from deferred.batches.marker import Marker
from deferred.batches.pusher import only_pusher, waiting_for_pushes
from deferred.catalog import deferred_transaction, delivery_row, destination
from deferred.catalog import queue as queue_catalog
from deferred.errors import CannotTell, PastRetention, PushRunning
from deferred.queues.delivery_rows import write_rows
from deferred.queues.queue import Queue, call_numbers, list_queues
from sites import faults
from sites.sessions import contacts, peers
from sites.sessions.identity import Identity
from sites.sessions.peers import Look, Pair
from sites.sessions.prepared import Prepared
from sites.sessions.site import autocommit
from sites.tables import locks
from sites.tables.analyze import analyze
from sites.transfer import transport

#: The turn of those who agree, and of those who purge, who would take away what the
#: first have just reopened.
TURN = "snaptide.agreement"


def look(
    origin: Connection,
    name: str,
    also: tuple[ColumnElement[Any], ...] = (),
    **values: Any,
) -> Look:
    """Read who a site is, and what it remembers of its masters, in one round trip.

    Parameters:
        also, values: what else to read, as by `peers.look`.
    """
    return peers.look(origin, name, also=(_AGREED, *also), **values)


def look_there(
    target: Connection,
    name: str,
    me: Identity,
    also: tuple[ColumnElement[Any], ...] = (),
    **values: Any,
) -> Look:
    """Read who a destination is, and what it remembers of a site, in one round trip.

    Its `row` says, too, where the site's marker stands and whether the destination is
    concerned with replication groups.

    Parameters:
        also, values: what else to read, as by `peers.look`; takes the site's id as
            `its_id`.
    """
    return peers.look(
        target,
        name,
        site=me.site_id,
        also=(marker.SEEN, _CONCERNED, *also),
        its_id=me.site_id,
        **values,
    )


def confirm(origin: Connection, target: Connection, here: Look, there: Look) -> Pair:
    """Make sure that a destination is the one this site knows, and agree with it.

    The caller is the only pusher. Both connections must be outside a transaction.

    Raises:
        SiteRestored, SiteReplaced: one of the two is older than the other remembers.
        CannotTell, PastRetention: the two cannot agree without an operator.
        OtherDatabase: another has the name now.
    """
    pair = compared(origin, target, here, there)
    me, them = pair.site, pair.master
    if not has_agreed(here, them):
        agreed = (here.row.agreed or {}).get(them.name)
        same_destination.refuse_another(origin, here, there, agreed)
        reconcile(origin, target, me.site_id, them.name, them.incarnation)
    return _acquainted(origin, target, pair)


def confirm_for_refresh(
    origin: Connection,
    target: Connection,
    here: Look,
    name: str,
    also: tuple[ColumnElement[Any], ...] = (),
    **values: Any,
) -> tuple[Pair, Row[Any]]:
    """As `confirm`, for callers that do not push; take the pusher's lock if needed.

    Parameters:
        here: what the site has said a moment ago.
        also, values: what else to ask the destination, as by `look_there`.

    Returns:
        The two, and the destination's answer to what else it was asked.

    Raises:
        SiteChanged: the destination's database is not the one it was.
        PushRunning: the two still have to agree, and a push holds the lock.
        As `confirm` does.
    """
    with autocommit(target):
        there = look_there(target, name, here.identity, also, **values)
    if not has_agreed(here, there.identity):
        pair = _agree_beside_pushes(origin, target, here.identity, name)
    else:
        pair = _acquainted(origin, target, compared(origin, target, here, there))
    return pair, there.row


def _agree_beside_pushes(
    origin: Connection, target: Connection, me: Identity, name: str
) -> Pair:
    # A running push agrees first of all, so soon there may be nothing left to do.
    for attempt in waiting_for_pushes():
        with attempt:
            here, there = looks(origin, target, me, name)
            if has_agreed(here, there.identity):
                break
            with only_pusher(origin, name) as alone:
                if not alone:
                    raise PushRunning(f"A push to {name} is running.", destination=name)
                return confirm(origin, target, *looks(origin, target, me, name))
    return _acquainted(origin, target, compared(origin, target, here, there))


def looks(
    origin: Connection, target: Connection, me: Identity, name: str
) -> tuple[Look, Look]:
    """Look at both ends, the site first."""
    with autocommit(origin, target):
        return look(origin, me.name), look_there(target, name, me)


def compared(origin: Connection, target: Connection, here: Look, there: Look) -> Pair:
    """What the two remember of their last contact; writes nothing.

    Both connections must be outside a transaction.

    Raises:
        SiteRestored, SiteReplaced: one of the two is older than the other remembers.
    """
    pair = peers.paired(here, there)
    if not pair.remembers_the_same:
        pair = contacts.read_again(origin, target, pair)
    pair.confirm()
    return pair


def _acquainted(origin: Connection, target: Connection, pair: Pair) -> Pair:
    if not pair.acquainted:
        contacts.meet(origin, target, pair)()
    return pair


def has_agreed(here: Look, them: Identity) -> bool:
    """Whether a site's batches belong to the destination's current incarnation."""
    return _belong(here.row.agreed, them)


def is_reconciled(origin: Connection, them: Identity) -> bool:
    """The same, as it is now."""
    with autocommit(origin):
        return _belong(_AGREED_NOW.run(origin).scalar(), them)


def _belong(agreed: _Agreed | None, them: Identity) -> bool:
    now = str(them.incarnation)
    return (agreed or {}).get(them.name, now) == now


def agrees_with(name: str, incarnation: uuid.UUID) -> ColumnElement[bool]:
    """Whether a site has agreed with no other incarnation of a destination."""
    other = destination.c.incarnation != incarnation
    return ~sa.exists().where(destination.c.name == name, other)


#: By destination, the incarnation that its batches belong to; None before they agree.
_Agreed = dict[str, str | None]
_AGREED = (
    select(func.json_object_agg(destination.c.name, destination.c.incarnation))
    .scalar_subquery()
    .label("agreed")
)
_AGREED_NOW = Prepared(select(_AGREED))

#: Made once: a statement is kept for each set of values that `peers.look` is asked for.
_CONCERNED = relay.CONCERNED.label("concerned")


def reconcile(
    origin: Connection,
    target: Connection,
    sender_id: uuid.UUID,
    name: str,
    incarnation: uuid.UUID,
) -> None:
    """Mark answered transactions as delivered; reopen all others, in order.

    Writes delivery_row, batch, destination, covered marks and extra keys; commits.

    A restored origin had sent on transactions that others will bring to it again. The
    destination watches for those.

    Raises:
        CannotTell, PastRetention: they cannot agree; nothing is written.
    """
    with autocommit(target):
        groups_there = relay.at(target)
    groups_there.restored(origin, target, sender_id, name)
    with target.begin(), origin.begin():
        # A push that began before a repair may still be at work there.
        at = marker.settled(target, sender_id)
        floor = ledger.reaches_back_to(target, sender_id, at)
        locks.wait_turn(origin, TURN)
        row = origin.execute(
            select(destination).where(destination.c.name == name).with_for_update()
        ).one()
        queues = list_queues(origin, name)
        _refuse_gap(origin, row, at, floor)
        groups_there.refuse_gap(origin, target, row)
        known = _take_ledger(origin, target, sender_id, at)
        _settle(origin, row, at, floor, known)
        _move_back(origin, queues, at)
        origin.execute(
            sa.update(destination)
            .where(destination.c.name == name)
            .values(
                incarnation=incarnation,
                batch_no=at.batch_no,
                batch_id=at.batch_id,
                batch_end=at.order_no,
                previous_id=None,
                previous_end=0,
            )
        )
        faults.point("agreement.before_commit")


def check(
    origin: Connection, target: Connection, sender_id: uuid.UUID, name: str
) -> None:
    """Make sure that the two can agree; writes nothing.

    Raises:
        CannotTell, PastRetention.
    """
    with target.begin(), origin.begin():
        at = marker.read(target, sender_id)
        floor = ledger.reaches_back_to(target, sender_id, at)
        row = origin.execute(
            select(destination).where(destination.c.name == name)
        ).one_or_none()
        if row is not None:
            _refuse_gap(origin, row, at, floor)
            relay.at(target).refuse_gap(origin, target, row)


def accept_gap(connection: Connection, name: str) -> None:
    """Go on without the changes that neither site nor destination has any more."""
    connection.execute(
        sa.update(destination)
        .where(destination.c.name == name)
        .values(purged_batch=0, purged_order=0, purged_settled=None)
    )


def _refuse_gap(origin: Connection, row: Row[Any], at: Marker, floor: int) -> None:
    if (at.batch_no, at.order_no) < (row.purged_batch, row.purged_order):
        raise PastRetention(
            f"{row.name} was restored to batch {at.batch_no} of this site. This site "
            f"no longer keeps the changes of later batches up to {row.purged_batch}.",
            destination=row.name,
            batch=at.batch_no,
        )
    if floor <= row.batch_no + 1 or at.batch_no <= row.batch_no:
        return
    waiting = select(func.count()).where(
        delivery_row.c.destination == row.name, delivery_row.c.batch.is_(None)
    )
    if origin.scalar(waiting):
        raise CannotTell(
            f"This site was restored to batch {row.batch_no}; {row.name} is at "
            f"{at.batch_no} and remembers only the batches from {floor} on.",
            destination=row.name,
            batch=row.batch_no,
        )


def _take_ledger(
    origin: Connection, target: Connection, sender_id: uuid.UUID, at: Marker
) -> sa.TableClause:
    """Copy the answered transactions of the destination into a temporary table."""
    known = transport.copied(
        target,
        ledger.answered(sender_id, at),
        origin,
        "snaptide_answered",
        number=sa.BigInteger,
        order_no=sa.BigInteger,
        started=sa.DateTime(timezone=True),
    )
    analyze(origin, known)
    return known


def _settle(
    origin: Connection,
    row: Row[Any],
    at: Marker,
    floor: int,
    known: sa.TableClause,
) -> None:
    """Mark each delivery as the destination has answered it, or as not answered."""
    write_rows(origin, row.name)
    mine = delivery_row.c.destination == row.name
    answered = _answered(row, at, floor, known)
    left = sa.union_all(*call_numbers(origin, row.name)).subquery()
    kept = delivery_row.c.xid.in_(select(left.c.xid))
    # A transaction whose calls were purged has nothing left to push.
    origin.execute(
        sa.delete(delivery_row).where(mine, sa.not_(answered), sa.not_(kept))
    )
    origin.execute(
        sa.update(delivery_row).where(mine, sa.not_(answered)).values(batch=None)
    )
    origin.execute(
        sa.update(delivery_row).where(mine, _same(known)).values(batch=known.c.number)
    )
    batches.note_all_answered(origin, row.name)


def _answered(
    row: Row[Any], at: Marker, floor: int, known: sa.TableClause
) -> ColumnElement[bool]:
    """Whether the destination has answered: by its ledger, or if older by number."""
    older = sa.and_(
        delivery_row.c.batch < floor,
        delivery_row.c.batch <= row.batch_no,
        sa.tuple_(delivery_row.c.batch, delivery_row.c.order_no)
        <= sa.tuple_(sa.literal(at.batch_no), sa.literal(at.order_no)),
    )
    listed = sa.exists().where(_same(known))
    return sa.or_(func.coalesce(older, sa.false()), listed)


def _same(known: sa.TableClause) -> ColumnElement[bool]:
    return sa.and_(
        known.c.order_no == delivery_row.c.order_no,
        known.c.started == deferred_transaction.c.start_time,
        deferred_transaction.c.xid == delivery_row.c.xid,
    )


def _move_back(origin: Connection, queues: list[Queue], at: Marker) -> None:
    """Move covered marks back, so that no refresh trusts places after the marker."""
    place = sa.tuple_(sa.literal(at.batch_no), sa.literal(at.order_no))
    covered = sa.tuple_(queue_catalog.c.covered_batch, queue_catalog.c.covered_order)
    for queue in queues:
        origin.execute(
            sa.update(queue_catalog)
            .where(queue_catalog.c.id == queue.id, covered > place)
            .values(covered_batch=at.batch_no, covered_order=at.order_no)
        )
        extra = queue.extra
        if extra is None:
            continue
        # These numbers come from a master that may be another database now.
        origin.execute(sa.update(extra).values(master_xid=None))
        # These keys come from calls whose images are gone; no push brings them.
        origin.execute(
            sa.update(extra)
            .where(sa.tuple_(extra.c.batch_no, extra.c.order_no) > place)
            .values(batch_no=None, order_no=None)
        )
