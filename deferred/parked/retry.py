"""Retrying parked transactions: as they are, with edited values, or in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches import marker, work
from deferred.batches.called import ProcedureCall
from deferred.error_catalog import WITHDRAWN, error_transaction
from deferred.errors import (
    BadEdit,
    BadSkip,
    GivesGoneColumn,
    RetryFailed,
    TargetColumnsMoved,
    WaitsForError,
)
from deferred.parked import (
    differing,
    edit,
    error_dependencies,
    error_queue,
    granted,
    left_out,
    present_names,
    restage_parked,
    withdrawn,
)
from deferred.parked.arrived import Arrived
from deferred.parked.calls import Call
from deferred.parked.edit import Edit, edited
from deferred.parked.left_out import StillParked
from deferred.parked.present_names import GoneColumns
from deferred.procedures.steps import FAILURES, Steps, apply, refusal
from masters.apply import Outcome, SourceTransaction
from masters.errors import RulesMoved, TableAltered, UnknownColumn
from sites import Site, faults
from sites.errors import UnknownTable, ValueDoesNotFit
from sites.retry import in_new_sessions
from sites.sessions import identity
from sites.writing import triggered
from sites.writing.staged import Staged, selected


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryReport:
    """The result of retrying one parked transaction."""

    error_id: int
    #: or, if this site withdrew it from its own queue, put back there
    applied: bool
    conflicts_resolved: int = 0
    #: why it was not applied
    reason: str = ""
    #: how many calls were not applied with the others, because they were to be left
    #: out or refer to such rows; they are still parked, under the same number
    left_out: int = 0


_NAMED = GoneColumns(by_name=True)


def retry(
    connection: Connection,
    master: Site,
    error_id: int,
    edits: Sequence[Edit] = (),
    *,
    skip: Sequence[int] = (),
    without_gone: bool = False,
) -> RetryReport:
    """Apply one parked transaction; the caller commits (Oracle: EXECUTE_ERROR).

    If it is applied, it leaves the error queue with the caller's commit; otherwise the
    database is as it was. An edited call starts from the row that was current
    when it was parked, so only a change since then is a conflict.

    Parameters:
        skip: the numbers of calls to leave out (Ingres: SkipRow). They stay parked
            under the number of the transaction, with calls that refer to their rows.
        without_gone: leave out the values of columns that this database has dropped;
            they are lost. Without it, a column that was added with the same name since
            gets them.

    Raises:
        NoSuchError, BadEdit, BadSkip.
        WaitsForError: it depends on one that is still parked.
        RetryFailed: it still cannot be applied.
    """
    with triggered.our_search_path(connection):
        gone = GoneColumns(by_name=True, without=without_gone)
        with granted.readable(error_queue.get(connection, error_id)):
            row = begin(connection, error_id, gone)
            return _retry(connection, master, row, edits, skip)


def begin(
    connection: Connection, error_id: int, gone: GoneColumns = _NAMED
) -> Row[Any]:
    """Keep pushes of its origin out, and have its calls name columns as they are now.

    Parameters:
        gone: what becomes of values of columns that are gone.

    Returns:
        The transaction's row in the catalog.

    Raises:
        NoSuchError.
        RetryFailed: a call gives a value to a column that is gone.
    """
    row = error_queue.get(connection, error_id)
    if row.reason == WITHDRAWN:
        return row
    # Before anything else, as a push does, so that the two cannot deadlock.
    marker.request_exclusive(connection, row.origin_id)
    marker.lock(connection, row.origin_id, row.origin)()
    row = error_queue.get(connection, error_id)
    try:
        present_names.settle(connection, row, gone)
    except GivesGoneColumn as refused:
        raise _refused(error_id, refused.message) from refused
    return row


def _retry(
    connection: Connection,
    master: Site,
    row: Row[Any],
    edits: Sequence[Edit],
    skip: Sequence[int],
) -> RetryReport:
    error_id = row.id
    if row.reason == WITHDRAWN:
        return _put_back(connection, row, edits, skip)
    error_dependencies.refuse_before_its_turn(connection, row)
    steps = _steps(connection, master, row, edits, skip)
    left = None
    if skip:
        instead = edited(connection, error_id, edits)
        steps, left = left_out.divide(connection, steps, skip, instead)
    if edits:
        _list_edited(connection, row, edits, steps, left)
    with granted.within(connection, row, steps):
        outcome = _apply(connection, steps, error_id)
    edited_keys = edit.renames(connection, error_id, edits, steps)
    renamed = outcome.takes_away or edited_keys
    lost = "which was applied with other values" if renamed else None
    if left is None:
        this = error_transaction.c.id == error_id
        error_queue.remove(connection, this, lost=lost, keep=edited_keys)
    else:
        left_out.keep(
            connection, row, left, at=master.name, lost=lost, keep_made=edited_keys
        )
    _own_again(connection)
    faults.point("retry.before_commit")
    return RetryReport(
        error_id=error_id,
        applied=True,
        conflicts_resolved=outcome.resolved,
        left_out=len(left.numbers) if left else 0,
    )


def _put_back(
    connection: Connection, row: Row[Any], edits: Sequence[Edit], skip: Sequence[int]
) -> RetryReport:
    """Put a transaction that this site withdrew back into its queue, as it was."""
    if edits:
        raise BadEdit(f"Error transaction {row.id} was withdrawn: do not edit it.")
    if skip:
        raise BadSkip(
            f"Error transaction {row.id} was withdrawn: it goes back into its queue "
            "whole."
        )
    try:
        with connection.begin_nested():
            withdrawn.put_back(connection, row)
    except DBAPIError as error:  # a value that a column cannot read, or a lock
        if not (sqlstate.caused_by_data(error) or sqlstate.held_up(error)):
            raise
        raise _failure(error, row.id, sqlstate.message(error)) from error
    return RetryReport(error_id=row.id, applied=True)


def retry_alone(
    master: Site,
    error_id: int,
    edits: Sequence[Edit] = (),
    *,
    skip: Sequence[int] = (),
    named: bool = False,
    gone: GoneColumns | None = None,
) -> RetryReport:
    """Retry one parked transaction, and commit it.

    Parameters:
        skip: the numbers of calls to leave out; they stay parked.
        named: the operator gave this number. It is needed if the transaction depends on
            lost rows, because another site's rows may be in their place.
        gone: what becomes of values of columns that the master has dropped. Without it,
            they are refused, unless `named`.

    Raises:
        NoSuchError, BadEdit, BadSkip, SiteUnreachable.
    """

    def work() -> RetryReport:
        with identity.confirmed(master) as connection:
            row = error_queue.get(connection, error_id)
            if error_dependencies.has_lost(row) and not named:
                reason = str(row.error_message)
                return RetryReport(error_id=error_id, applied=False, reason=reason)
            with granted.readable(row):
                row = begin(connection, error_id, gone or GoneColumns(by_name=named))
                return _retry(connection, master, row, edits, skip)

    try:
        return in_new_sessions(master.release, work)
    except (RetryFailed, WaitsForError) as error:
        return RetryReport(error_id=error_id, applied=False, reason=error.message)


def _steps(
    connection: Connection,
    master: Site,
    row: Row[Any],
    edits: Sequence[Edit],
    skip: Sequence[int],
) -> Steps:
    """The transaction as it was parked, or as it is edited."""
    procedures = error_queue.procedures(connection, row.id)
    left_out.refuse(connection, row.id, skip, procedures)
    procedures, left = edit.procedures(procedures, edits)
    instead = edited(connection, row.id, left)
    left_out.refuse_edited(instead, skip)
    staged = _staged(connection, row, instead, procedures, skip)
    arrived = Arrived(
        transaction=row.origin_transaction,
        origin=row.origin,
        user=row.origin_user,
        made_at=row.start_time,
        source=SourceTransaction(
            transaction=row.origin_transaction, changed_at=row.start_time
        ),
        sender_id=row.origin_id,
        master=master.name,
        sources=row.sources,
        calls=procedures,
    )
    units = restage_parked.units(row.id, procedures)
    counts = {number: work.counts(connection, staged, number) for number in units}
    return arrived.steps(connection, staged, counts)


def _list_edited(
    connection: Connection,
    row: Row[Any],
    edits: Sequence[Edit],
    steps: Steps,
    aside: StillParked | None,
) -> None:
    """List the rows of a group that it changes, as its site meant it and as edited."""
    made = f"transaction {row.origin_transaction} of {row.origin}"
    why = f"{made} was edited when it was retried"
    but = aside.numbers if aside else frozenset[int]()
    differing.note_parked(connection, row.id, why, but=but)
    _, left = edit.procedures(steps.calls, edits)
    numbers = tuple(one.call_no for one in edited(connection, row.id, left))
    for staged in steps.changed:
        which = selected(staged.source, {"call_no": numbers})
        differing.note_staged(connection, staged, which, why)


def _apply(connection: Connection, steps: Steps, error_id: int) -> Outcome:
    try:
        outcome = apply(connection, steps)
    except DBAPIError as error:
        if not (sqlstate.caused_by_data(error) or sqlstate.held_up(error)):
            raise
        reason = refusal(connection, steps, error)
        raise _failure(error, error_id, reason) from error
    except (*FAILURES, TableAltered, RulesMoved) as error:
        raise RetryFailed(f"Error transaction {error_id}: {error.message}") from error
    if outcome.unresolved:
        reasons = "; ".join(dict.fromkeys(outcome.unresolved.values()))
        raise RetryFailed(f"Error transaction {error_id}: {reasons}", error_id=error_id)
    return outcome


def _own_again(connection: Connection) -> None:
    """Let the caller's later changes be queued as its own, not as the origin's."""
    connection.execute(select(*triggered.own()))


def _staged(
    connection: Connection,
    row: Row[Any],
    instead: Sequence[Call],
    procedures: Sequence[ProcedureCall],
    skip: Sequence[int],
) -> list[Staged]:
    error_id = row.id
    try:
        with connection.begin_nested():
            return restage_parked.stage(connection, error_id, instead, procedures, skip)
    except ValueDoesNotFit as unfit:
        raise RetryFailed(
            f"Error transaction {error_id}: {unfit.message}",
            error_id=error_id,
            **unfit.facts,
        ) from unfit
    except (
        UnknownTable,
        UnknownColumn,
        TargetColumnsMoved,
    ) as gone:  # DDL came since it was parked
        raise _refused(error_id, gone.message) from gone
    except DBAPIError as error:  # a value, or an edit, that a column cannot read
        if sqlstate.held_up(error):  # somebody has locked a table of it
            raise _failure(error, error_id, sqlstate.message(error)) from error
        if not sqlstate.caused_by_data(error):
            raise
        again = sqlstate.of(error) == row.error_code and not instead
        reason = row.error_message if again else sqlstate.message(error)
        raise _failure(error, error_id, reason) from error


def _refused(error_id: int, why: str, **facts: object) -> RetryFailed:
    return RetryFailed(
        f"Error transaction {error_id}: {why}", error_id=error_id, **facts
    )


def _failure(error: DBAPIError, error_id: int, reason: str) -> RetryFailed:
    return _refused(error_id, reason, sqlstate=sqlstate.of(error))
