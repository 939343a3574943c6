"""Delivering a batch group by group; a group that fails is tried in smaller pieces.

The last resort is a group of one transaction, which is applied or parked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, TableClause, Text, cast, func, or_
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import batch as batches
from deferred.batches import groups, ledger, procedure_call
from deferred.batches.batch import Waiting
from deferred.batches.groups import Group
from deferred.batches.shipping import Line, lay, ship, ship_what_fits
from deferred.errors import TransactionRefused
from deferred.parked import quiet
from deferred.pushing.compiled import deliver_together
from deferred.pushing.delivery import Delivered, deliver
from deferred.pushing.origin import Origin
from deferred.pushing.run import Run
from deferred.queues.queue import Queue, changes_key
from sites import encodings, faults, names, references
from sites.errors import ValueDoesNotFit
from sites.site import each_by_itself

#: Calls that are shipped at a time when transactions are applied one by one.
SHIPPED = 1000

#: How often a group waits for users who hold its rows before it is divided.
PATIENCE = 2


def planned(line: Line, after: int, run: Run) -> list[Group]:
    """The groups of a batch after an order number, no more than the run may deliver.

    Raises:
        PositionMismatch: their transactions were answered before and since purged.
    """
    options = run.options
    members = groups.members(
        line.origin, line.batch, after, line.queues, options.group_max_bytes
    )
    if not members:
        raise batches.purged(line.batch)
    now = members[: run.left()]
    if len(now) == 1 or not (options.grouping or options.parallel):
        return [Group(after=after, members=tuple(now))]
    alone = _alone(line, options.one_by_one)
    return list(groups.plan(now, after, options, alone))


def carry(line: Line, origin: Origin, group: Group, run: Run) -> bool:
    """Deliver a group, together or in pieces.

    Returns:
        False if the run is over, or another pusher has gone on.
    """
    options = run.options
    single = len(group) == 1 or group.one_by_one
    if single or line.watched or not options.grouping:
        return _one_by_one(line, origin, group, run)
    # After PATIENCE waits the group is divided: a user who holds a row then delays only
    # the transactions after it.
    answer = deliver_together(
        line, origin, group, options.bulk_threshold, patient=run.held_up < PATIENCE
    )
    if isinstance(answer, Delivered):
        run.count(answer, transactions=len(group), calls=group.calls)
        return answer.fresh and not run.over()
    if group.calls < options.retry_threshold:
        return _one_by_one(line, origin, group, run)
    return all(
        carry(line, origin, piece, run)
        for piece in groups.split(group, answer.transactions)
    )


def _alone(line: Line, excluded: tuple[str, ...]) -> set[int]:
    """Transactions that cannot be compiled.

    Those that call procedures or change keys; those of excluded tables, of tables that
    the destination sends on to other masters, and of groups that are quiet there; and
    if foreign keys at the master act, those whose deletes or changed keys may reach
    rows that other transactions of the group change.
    """
    acting = references.acting(line.target, [one.table for one in line.staged])
    named = {names.parse(name) for name in excluded} | line.going_on
    named |= quiet.tables(line.target)
    found = procedure_call.orders(line.origin, line.batch)
    for queue, staged in zip(line.queues, line.staged, strict=True):
        calls = queue.sql()
        if queue.target in named:
            found |= groups.touching(line.origin, line.batch, calls)
            continue
        single = changes_key(calls)
        if columns := acting.get(staged.table.oid):
            single |= _reaching(queue, calls, columns)
        found |= groups.touching(line.origin, line.batch, calls, single)
    return found


def _reaching(
    queue: Queue, calls: TableClause, columns: tuple[str, ...]
) -> ColumnElement[bool]:
    """Calls that delete a row, or change values that other rows refer to."""
    numbers = [queue.columns.index(c) + 1 for c in columns if c in queue.columns]
    moved = [calls.c[f"o{n}"].is_distinct_from(calls.c[f"n{n}"]) for n in numbers]
    kind = func.upper(cast(calls.c.kind, Text))
    return or_(kind == "D", *((kind == "U") & one for one in moved))


def _one_by_one(line: Line, origin: Origin, group: Group, run: Run) -> bool:
    """Deliver each transaction of a group by itself, in order."""
    with each_by_itself(line.origin):
        ahead = batches.waiting(line.origin, line.batch, group.after, group.end)
    after = group.after
    while ahead:
        some = _calling(line, after, _shipment(ahead))
        try:
            _ship(line, after, some, run)
        except DBAPIError as error:
            if not sqlstate.caused_by_data(error):
                raise
            line = _laid_again(line, origin)
            goes_on = _each_as_far_as_it_fits(line, origin, after, some, run)
        else:
            goes_on = _deliver_each(line, origin, some, run)
        if not goes_on:
            return False
        ahead, after = ahead[len(some) :], some[-1].order_no
    return True


def _ship(line: Line, after: int, some: Sequence[Waiting], run: Run) -> None:
    """Fill the work tables with transactions, and commit."""
    calls = sum(one.calls for one in some)
    ship(
        line,
        after,
        some[-1].order_no,
        together=False,
        bulk=run.options.bulk_threshold,
        calls=calls,
        transactions=len(some),
        only=[some[0].order_no] if calls > SHIPPED else None,
        in_steps=any(one.procedures for one in some),
        told=run.shipping(calls),
    )
    faults.point("push.before_ship_commit")
    line.target.commit()
    faults.point("push.after_ship")


def _laid_again(line: Line, origin: Origin) -> Line:
    """Prepare the line again, because a rollback may have undone its work tables."""
    line.target.rollback()
    line.origin.rollback()
    laid = lay(line.origin, line.target, line.batch, origin.name)
    ledger.note(line.origin, line.target, origin.id, line.batch)
    line.target.commit()
    line.origin.commit()
    return replace(laid, watched=line.watched, watched_for=line.watched_for)


def _each_as_far_as_it_fits(
    line: Line, origin: Origin, after: int, some: Sequence[Waiting], run: Run
) -> bool:
    """Deliver transactions, some with values that do not fit at the destination."""
    for one in some:
        unfit = _ship_what_fits(line, one, after)
        line.target.commit()
        faults.point("push.after_ship")
        if not _deliver_each(line, origin, [one], run, unfit):
            return False
        after = one.order_no
    return True


def _ship_what_fits(line: Line, one: Waiting, after: int) -> ValueDoesNotFit | None:
    try:
        codec = encodings.codec(line.target)
        return ship_what_fits(line, one, after, codec=codec)
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
    # The database and Python may disagree about an encoding.
    line.target.rollback()
    line.origin.rollback()
    return ship_what_fits(line, one, after, codec=encodings.LEAST)


def _shipment(ahead: list[Waiting]) -> list[Waiting]:
    """The next transactions that are shipped together; at least one."""
    calls = 0
    for n, transaction in enumerate(ahead):
        calls += transaction.calls
        if n and calls > SHIPPED:
            return ahead[:n]
    return ahead


def _calling(line: Line, after: int, some: Sequence[Waiting]) -> list[Waiting]:
    """The transactions of a shipment, with the procedures that they call."""
    if not some[0].may_call:
        return list(some)
    end = some[-1].order_no
    called = procedure_call.by_transaction(line.origin, line.batch, after, end)
    return [replace(one, procedures=called.get(one.order_no, ())) for one in some]


def _deliver_each(
    line: Line,
    origin: Origin,
    transactions: Sequence[Waiting],
    run: Run,
    unfit: ValueDoesNotFit | None = None,
) -> bool:
    # Changes that go on to other masters need a transaction of their own there. So do
    # the writes of a user's trigger, which are queued as made by the applied one.
    size = 0 if line.sends_on else run.options.batch_size
    open_calls, open_work = 0, list[tuple[Waiting, Delivered]]()

    def commit() -> None:
        faults.point("push.before_commit")
        line.target.commit()
        faults.point("push.after_commit")
        for transaction, delivered in open_work:
            run.count(delivered, transactions=1, calls=transaction.calls)
        open_work.clear()

    for transaction in transactions:
        try:
            delivered = deliver(
                line.target,
                origin,
                line.batch,
                transaction,
                line.staged,
                run.options.error_action,
                run.writing(transaction.calls),
                unfit,
                None if line.watched else line.watched_for,
            )
        except TransactionRefused:
            commit()
            raise
        open_work.append((transaction, delivered))
        open_calls += transaction.calls
        if open_calls > size or delivered.error_id is not None:
            commit()
            open_calls = 0
        if run.over(sum(delivered.fresh for _, delivered in open_work)):
            break
    commit()
    return not run.over()
