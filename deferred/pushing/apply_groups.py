"""Delivering a batch group by group; a group that fails is tried in smaller pieces.

The last resort is a group of one transaction, which is applied or parked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import batch as batches
from deferred.batches import groups, ledger, procedure_call, whole_window
from deferred.batches.batch import QueuedTransaction
from deferred.batches.groups import ApplyGroup
from deferred.batches.provenance import Sender
from deferred.batches.shipment import Shipment, prepare_again
from deferred.batches.shipping import Part, ship, ship_what_fits
from deferred.errors import GivesGoneColumn, TransactionRefused
from deferred.pushing.compiled import deliver_together
from deferred.pushing.delivery import Begun, Delivered, begin, deliver
from deferred.pushing.run import Run
from deferred.queues import delivery_rows
from sites import faults
from sites.errors import ValueDoesNotFit
from sites.transfer import encodings

#: Calls that are shipped at a time when transactions are applied one by one.
SHIPPED = 1000

#: How often a group waits for users who hold its rows before it is divided.
PATIENCE = 2


def apply_group(
    shipment: Shipment, sender: Sender, group: ApplyGroup, run: Run
) -> bool:
    """Deliver a group, together or in pieces.

    Returns:
        False if the run is over, or another pusher has gone on.
    """
    options = run.options
    single = len(group) == 1 or group.one_by_one or shipment.may_change_values
    single = single or not shipment.giving.isdisjoint(group.members.orders)
    if single or shipment.terms.may_hold_duplicates or not options.grouping:
        return _one_by_one(shipment, sender, group, run)
    # After PATIENCE waits the group is divided: a user who holds a row then delays only
    # the transactions after it.
    answer = deliver_together(
        shipment, sender, group, options.bulk_threshold, patient=run.held_up < PATIENCE
    )
    if isinstance(answer, Delivered):
        run.count(answer, transactions=len(group), calls=group.calls)
        return answer.fresh and not run.over()
    if group.calls < options.retry_threshold:
        return _one_by_one(shipment, sender, group, run)
    write_rows(shipment)
    return all(
        apply_group(shipment, sender, piece, run)
        for piece in groups.split(group, answer.transactions)
    )


def write_rows(shipment: Shipment) -> None:
    """Write a row for each transaction of a batch that is shipped in pieces.

    Without rows, each piece would read the whole batch. Commits at the origin.
    """
    if len(shipment.listed.orders) < whole_window.MANY:
        return  # a batch of so few has rows
    batch = shipment.batch
    with shipment.origin.begin():
        delivery_rows.write_rows(shipment.origin, batch.destination, batch.number)


def _one_by_one(
    shipment: Shipment, sender: Sender, group: ApplyGroup, run: Run
) -> bool:
    """Deliver each transaction of a group by itself, in order."""
    if len(group) > 1:
        write_rows(shipment)
    if shipment.queued is None:
        shipment.origin.rollback()
        queued = batches.queued_transactions(
            shipment.origin, shipment.batch, group.after, group.end
        )
    else:
        queued = shipment.queued
    ahead = queued()
    after = group.after
    while ahead:
        some = _calling(shipment, after, _shipment(ahead))
        as_they_are = not any(shipment.is_by_itself(one.order_no) for one in some)
        begun = None
        try:
            if as_they_are:
                begun = _ship(shipment, sender, after, some, run)
        except DBAPIError as error:
            if not shipment.is_refused(error):
                raise
            shipment, as_they_are = _prepared_again(shipment, sender), False
        if as_they_are:
            goes_on = _deliver_each(shipment, sender, some, run, begun=begun)
        else:
            goes_on = _each_as_far_as_it_fits(shipment, sender, after, some, run)
        if not goes_on:
            return False
        ahead, after = ahead[len(some) :], some[-1].order_no
    return True


def _ship(
    shipment: Shipment,
    sender: Sender,
    after: int,
    some: Sequence[QueuedTransaction],
    run: Run,
) -> Begun | None:
    """Fill the work tables with transactions, and commit.

    The only one of a batch is applied in the same transaction: it is begun here.
    """
    calls = sum(one.calls for one in some)
    part = Part(
        after=after,
        end=some[-1].order_no,
        only=[some[0].order_no] if calls > SHIPPED else None,
        transactions=len(some),
        calls=calls,
        in_steps=any(one.procedures for one in some),
    )
    ship(shipment, part, run.options.bulk_threshold, run.shipping(calls))
    faults.point("push.before_ship_commit")
    begun = None
    if len(shipment.listed.orders) == 1:
        begun = begin(shipment, sender, some[0])
    else:
        shipment.target.commit()
    faults.point("push.after_ship")
    return begun


def _prepared_again(
    shipment: Shipment, sender: Sender, *, not_lifted: str = ""
) -> Shipment:
    """Prepare the shipment again: a rollback may have undone its work tables."""
    shipment.target.rollback()
    shipment.origin.rollback()
    again = prepare_again(
        shipment, shipment.origin, shipment.target, not_lifted=not_lifted
    )
    noted = ledger.note(shipment.target, sender.id, shipment.batch, shipment.listed)
    shipment.target.commit()
    shipment.origin.commit()
    return replace(again, noted=noted)


def _each_as_far_as_it_fits(
    shipment: Shipment,
    sender: Sender,
    after: int,
    some: Sequence[QueuedTransaction],
    run: Run,
) -> bool:
    """Deliver transactions, some with values that do not fit at the destination."""
    # A rollback must not undo the work tables: others are shipped in them.
    shipment.target.commit()
    for one in some:
        shipped, unfit = _shipped_as_far_as_it_fits(shipment, sender, one, after)
        shipment.target.commit()
        faults.point("push.after_ship")
        if not _deliver_each(shipped, sender, [one], run, unfit):
            return False
        after = one.order_no
    return True


def _shipped_as_far_as_it_fits(
    shipment: Shipment, sender: Sender, one: QueuedTransaction, after: int
) -> tuple[Shipment, ValueDoesNotFit | GivesGoneColumn | None]:
    """Ship a transaction, without lenses if it does not fit through them.

    It is parked with the values that the site gave it then, and not with others.

    Returns:
        The shipment whose work tables have it, and why it cannot be applied, if so.
    """
    if not shipment.lifts:
        return shipment, _ship_what_fits(shipment, one, after)
    try:
        unfit = _ship_what_fits(shipment, one, after)
        if unfit is None:
            return shipment, None
        why = unfit.message.rstrip(".")
        if isinstance(unfit, GivesGoneColumn):
            why = "the transaction gives a value to a column without a lens, too"
    except DBAPIError as error:
        if not shipment.is_refused(error):
            raise
        why = sqlstate.message(error)
    shipment = _prepared_again(shipment, sender, not_lifted=why)
    return shipment, _ship_what_fits(shipment, one, after)


def _ship_what_fits(
    shipment: Shipment, one: QueuedTransaction, after: int
) -> ValueDoesNotFit | GivesGoneColumn | None:
    try:
        codec = encodings.codec(shipment.target)
        return ship_what_fits(shipment, one, after, codec=codec)
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
    # The database and Python may disagree about an encoding.
    shipment.target.rollback()
    shipment.origin.rollback()
    return ship_what_fits(shipment, one, after, codec=encodings.LEAST)


def _shipment(ahead: list[QueuedTransaction]) -> list[QueuedTransaction]:
    """The next transactions that are shipped together; at least one."""
    calls = 0
    for n, transaction in enumerate(ahead):
        calls += transaction.calls
        if n and calls > SHIPPED:
            return ahead[:n]
    return ahead


def _calling(
    shipment: Shipment, after: int, some: Sequence[QueuedTransaction]
) -> list[QueuedTransaction]:
    """The transactions of a shipment, with the procedures that they call."""
    if not some[0].may_call:
        return list(some)
    end = some[-1].order_no
    called = procedure_call.by_transaction(shipment.origin, shipment.batch, after, end)
    return [replace(one, procedures=called.get(one.order_no, ())) for one in some]


def _deliver_each(
    shipment: Shipment,
    sender: Sender,
    transactions: Sequence[QueuedTransaction],
    run: Run,
    unfit: ValueDoesNotFit | GivesGoneColumn | None = None,
    begun: Begun | None = None,
) -> bool:
    # Changes that go on to other masters need a transaction of their own there. So do
    # the writes of a user's trigger, which are queued as made by the applied one.
    size = 0 if shipment.terms.sends_on else run.options.batch_size
    open_calls, open_work = 0, list[tuple[QueuedTransaction, Delivered]]()

    def commit() -> None:
        faults.point("push.before_commit")
        shipment.target.commit()
        faults.point("push.after_commit")
        for transaction, delivered in open_work:
            run.count(delivered, transactions=1, calls=transaction.calls)
        open_work.clear()

    for transaction in transactions:
        commits = open_calls + transaction.calls > size
        try:
            delivered = deliver(
                shipment,
                sender,
                transaction,
                run.options.error_action,
                run.writing(transaction.calls),
                unfit,
                commits=commits,
                begun=begun,
            )
        except TransactionRefused:
            commit()
            raise
        open_work.append((transaction, delivered))
        open_calls += transaction.calls
        if commits or delivered.error_id is not None:
            commit()
            open_calls = 0
        if run.over(sum(delivered.fresh for _, delivered in open_work)):
            break
    commit()
    return not run.over()
