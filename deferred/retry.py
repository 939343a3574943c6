"""Applying parked transactions after all, as they are or as edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, select
from sqlalchemy.exc import DBAPIError

from deferred import call, error_queue, marker, sqlstate, work
from deferred.call import Call, Image
from deferred.catalog import error_transaction
from deferred.errors import BadEdit, RetryFailed, WaitsForError
from masters.apply import Unit, apply
from masters.errors import InvalidNetChange
from sites import QualifiedName, Site, faults, identity, names, transport
from sites.errors import RowCountMismatch
from sites.write import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A value to be written instead of the one that the site sent.

    Parameters:
        call: number of the call, or the table where only one call is about it.
        column: of the master table.
        value: as text that the column's type reads; None is NULL.
    """

    call: int | str
    column: str
    value: str | None

    @classmethod
    def parse(cls, text: str) -> Edit:
        """Read `TABLE.COLUMN=VALUE` or `CALL_NO.COLUMN=VALUE`.

        Raises:
            BadEdit: it is of neither form.
        """
        where, equals, value = text.partition("=")
        table, dot, column = where.rpartition(".")
        if not (equals and dot and table and column):
            raise BadEdit(f"{text!r} is not an edit.", edit=text)
        call: int | str = int(table) if table.isdigit() else table
        return cls(call=call, column=column.strip('"'), value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryReport:
    """What a retry did with one parked transaction."""

    error_id: int
    applied: bool
    conflicts_resolved: int = 0
    #: why it was not applied
    reason: str = ""


def retry(
    connection: Connection, master: Site, error_id: int, edits: Sequence[Edit] = ()
) -> RetryReport:
    """Apply one parked transaction; the caller commits (Oracle: EXECUTE_ERROR).

    Applied, it leaves the error queue with the caller's commit; otherwise the
    database is as it was. An edited call starts from the row that was current
    when it was parked, so only a change since then is a conflict.

    Raises:
        NoSuchError, BadEdit.
        WaitsForError: it depends on one that is still parked.
        RetryFailed: it still cannot be applied.
    """
    row = error_queue.get(connection, error_id)
    # Before anything else, as push does: the two then never wait in a circle.
    marker.lock(connection, row.origin_id, row.origin)
    row = error_queue.get(connection, error_id)
    _refuse_before_its_turn(connection, row)
    calls = _edited(error_queue.calls_of(connection, [error_id]), edits)
    staged = _staged(connection, calls, error_id)
    unit = Unit(
        number=error_id,
        staged=staged,
        counts=work.counts(connection, staged, error_id),
        origin=row.origin,
        master=master.name,
        transaction=row.origin_transaction,
        changed_at=row.start_time,
    )
    resolved = _apply(connection, unit, error_id)
    connection.execute(
        sa.delete(error_transaction).where(error_transaction.c.id == error_id)
    )
    faults.point("retry.before_commit")
    return RetryReport(error_id=error_id, applied=True, conflicts_resolved=resolved)


def retry_errors(
    master: Site,
    error_ids: Sequence[int] | None = None,
    *,
    origin: str | None = None,
    edits: Sequence[Edit] = (),
    with_dependants: bool = False,
) -> list[RetryReport]:
    """Retry parked transactions in the order in which they were made, each on its own.

    Parameters:
        error_ids: which ones; None means all.
        origin: only those of this site.
        edits: only with a single id.
        with_dependants: also those that wait for the ones that are named.

    Raises:
        NoSuchError, BadEdit, SiteUnreachable.
    """
    if edits and (error_ids is None or len(error_ids) != 1):
        raise BadEdit("Edits go with exactly one error transaction.")
    chosen = _chosen(master, error_ids, origin, with_dependants=with_dependants)
    reports = []
    for error_id in chosen:
        own = edits if error_ids and error_id == error_ids[0] else ()
        reports.append(_retry_alone(master, error_id, own))
    return reports


def _retry_alone(master: Site, error_id: int, edits: Sequence[Edit]) -> RetryReport:
    try:
        with master.begin() as connection:
            identity.confirm(connection, master.name)
            return retry(connection, master, error_id, edits)
    except (RetryFailed, WaitsForError) as error:
        return RetryReport(error_id=error_id, applied=False, reason=error.message)


def _chosen(
    master: Site,
    error_ids: Sequence[int] | None,
    origin: str | None,
    *,
    with_dependants: bool,
) -> list[int]:
    errors = error_queue.list_errors(master, origin)
    wanted = {e.id for e in errors} if error_ids is None else set(error_ids)
    with master.begin() as connection:
        for error_id in wanted:
            error_queue.get(connection, error_id)
    if with_dependants:
        for error in errors:  # in order, so that chains are followed
            if wanted & set(error.waits_for):
                wanted.add(error.id)
    return [error.id for error in errors if error.id in wanted]


def _refuse_before_its_turn(connection: Connection, row: Row[Any]) -> None:
    still = list(
        connection.scalars(
            select(error_transaction.c.id).where(
                error_transaction.c.id.in_(row.waits_for)
            )
        )
    )
    if still:
        raise WaitsForError(
            f"Error transaction {row.id} waits for {', '.join(map(str, still))}.",
            error_id=row.id,
            waits_for=still,
        )


def _apply(connection: Connection, unit: Unit, error_id: int) -> int:
    savepoint = connection.begin_nested()
    try:
        outcome = apply(connection, unit)
    except DBAPIError as error:
        if not (sqlstate.caused_by_data(error) or sqlstate.gave_way(error)):
            raise
        savepoint.rollback()
        raise _failure(error, error_id) from error
    except (RowCountMismatch, InvalidNetChange) as error:
        savepoint.rollback()
        raise RetryFailed(f"Error transaction {error_id}: {error.message}") from error
    if outcome.unresolved:
        savepoint.rollback()
        reasons = "; ".join(dict.fromkeys(outcome.unresolved.values()))
        raise RetryFailed(f"Error transaction {error_id}: {reasons}", error_id=error_id)
    savepoint.commit()
    return outcome.resolved


def _staged(connection: Connection, calls: list[Call], error_id: int) -> list[Staged]:
    try:
        with connection.begin_nested():
            return _stage(connection, calls, error_id)
    except DBAPIError as error:  # an edit that the column's type cannot read
        if not sqlstate.caused_by_data(error):
            raise
        raise _failure(error, error_id) from error


def _failure(error: DBAPIError, error_id: int) -> RetryFailed:
    return RetryFailed(
        f"Error transaction {error_id}: {sqlstate.message(error)}",
        error_id=error_id,
        sqlstate=sqlstate.of(error),
    )


def _stage(connection: Connection, calls: list[Call], unit: int) -> list[Staged]:
    """Put calls into work tables again, as a push would have shipped them."""
    by_table: dict[
        tuple[QualifiedName, tuple[str, ...], tuple[str, ...]], list[Call]
    ] = {}
    for one in calls:
        columns = tuple((one.new or one.old or {}).keys())
        by_table.setdefault((one.target, columns, one.identity), []).append(one)
    staged = []
    for number, ((target, columns, identity_columns), group) in enumerate(
        by_table.items()
    ):
        table = work.stage(connection, number, target, columns, identity_columns)
        transport.copy_rows(
            connection,
            table.source,
            work.columns_of(table),
            call.stage(group, table, unit),
        )
        staged.append(table)
    return staged


def _edited(calls: list[Call], edits: Sequence[Edit]) -> list[Call]:
    for edit in edits:
        chosen = [c for c in calls if _names(edit, c)]
        if len(chosen) != 1:
            what = "no call" if not chosen else f"{len(chosen)} calls"
            raise BadEdit(f"{edit.call}.{edit.column} names {what}.", edit=edit)
        calls = [_changed(c, edit) if c is chosen[0] else c for c in calls]
    return calls


def _names(edit: Edit, one: Call) -> bool:
    if isinstance(edit.call, int):
        return edit.call == one.call_no
    return names.parse(edit.call) == one.target


def _changed(one: Call, edit: Edit) -> Call:
    """The call with a value of the editor's, starting from the row he looked at."""
    if one.new is None or edit.column not in one.new:
        raise BadEdit(
            f"Call {one.call_no} has no new value of {edit.column!r}.", edit=edit
        )
    new: Mapping[str, str | None] = {**one.new, edit.column: edit.value}
    started: Image | None = one.current
    kind = one.kind
    if kind == "U" and started is None:
        kind = "I"
    elif kind == "I" and started is not None and _same_key(one, new, started):
        kind = "U"
    return replace(one, kind=kind, old=started if kind == "U" else one.old, new=new)


def _same_key(one: Call, new: Image, current: Image) -> bool:
    return all(new.get(name) == current.get(name) for name in one.identity)
