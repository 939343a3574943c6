"""What a retry would come to: it is done, looked at, and rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Text, literal, select, text
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.error_catalog import error_call
from deferred.errors import RetryFailed, WaitsForError
from deferred.parked import calls, edit, error_queue
from deferred.parked.calls import Call
from deferred.parked.edit import Edit
from deferred.parked.image import Image
from deferred.parked.retry import retry
from sites import QualifiedName, Site, identity, outdated
from sites.errors import UnknownTable
from sites.table import Table, describe
from sites.values import from_text, printed

#: The number of a call, its table, and the key of a row.
_Place = tuple[int, QualifiedName, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedRow:
    """A row of a parked transaction at the master, before and after a retry."""

    call_no: int
    table: str
    #: the row as it is now; None if there is none
    before: Image | None
    #: the row as the retry would leave it; None if there would be none
    after: Image | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPreview:
    """What a retry of a parked transaction would come to now."""

    error_id: int
    applied: bool
    conflicts_resolved: int = 0
    #: why it would not be applied
    reason: str = ""
    #: how many calls would stay parked, because they are to be left out
    left_out: int = 0
    #: of its first calls; none if it would not be applied
    rows: tuple[PreviewedRow, ...] = ()


def preview_error(
    master: Site,
    error_id: int,
    edits: Sequence[Edit] = (),
    *,
    skip: Sequence[int] = (),
    limit: int = 100,
) -> ErrorPreview:
    """Find out what a retry would do, without doing it.

    The retry runs in a transaction that is rolled back, so it waits for the same locks,
    and custom routines and procedures are called as in a retry.

    Parameters:
        skip: the numbers of calls that the retry would leave out.
        limit: show the rows of so many calls.

    Raises:
        NoSuchError, BadEdit, BadSkip, SiteUnreachable.
    """

    def work() -> ErrorPreview:
        with identity.confirmed(master) as connection:
            found = _tried(connection, master, error_id, edits, skip, limit)
            if (transaction := connection.get_transaction()) is not None:
                transaction.rollback()
            return found

    try:
        return outdated.replaced(master, work)
    except (RetryFailed, WaitsForError) as error:
        return ErrorPreview(error_id=error_id, applied=False, reason=error.message)


def _tried(
    connection: Connection,
    master: Site,
    error_id: int,
    edits: Sequence[Edit],
    skip: Sequence[int],
    limit: int,
) -> ErrorPreview:
    wanted = _calls(connection, error_id, edits, limit)
    before = _rows(connection, wanted)
    report = retry(connection, master, error_id, edits, skip=skip)
    try:
        # A commit would check these, too.
        connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
        raise RetryFailed(sqlstate.message(error), error_id=error_id) from error
    after = _rows(connection, wanted)
    return ErrorPreview(
        error_id=error_id,
        applied=report.applied,
        conflicts_resolved=report.conflicts_resolved,
        left_out=report.left_out,
        rows=tuple(
            PreviewedRow(
                call_no=call_no,
                table=str(table),
                before=before[call_no, table, key],
                after=after[call_no, table, key],
            )
            for call_no, table, key in before
        ),
    )


def _calls(
    connection: Connection, error_id: int, edits: Sequence[Edit], limit: int
) -> list[Call]:
    """The first calls of a parked transaction, as they are edited."""
    numbers = connection.scalars(
        select(error_call.c.call_no)
        .where(error_call.c.error_id == error_id)
        .order_by("call_no")
        .limit(limit)
    ).all()
    procedures = error_queue.procedures(connection, error_id)
    _, of_rows = edit.procedures(procedures, edits)
    changed = {one.call_no: one for one in edit.edited(connection, error_id, of_rows)}
    return [
        changed.get(number) or calls.parked(connection, error_id, number)
        for number in numbers
    ]


def _rows(connection: Connection, wanted: Sequence[Call]) -> dict[_Place, Image | None]:
    """The rows that calls find and make, as they are now, by where they are."""
    tables: dict[QualifiedName, Table | None] = {}
    found: dict[_Place, Image | None] = {}
    for call in wanted:
        if call.target not in tables:
            tables[call.target] = _described(connection, call.target)
        table = tables[call.target]
        for image in (call.old, call.new):
            if table is not None and image is not None:
                key = tuple(image.get(name) for name in call.identity)
                place = call.call_no, call.target, key
                found[place] = _row(connection, table, call, key)
    return found


def _described(connection: Connection, name: QualifiedName) -> Table | None:
    try:
        return describe(connection, name)
    except UnknownTable:  # the retry says so
        return None


def _row(
    connection: Connection, table: Table, call: Call, key: Sequence[str | None]
) -> Image | None:
    """The row of a key; None if there is none, or the key fits no row."""
    target = table.sql()
    names = [name for name in call.columns if name in target.c]
    by_name = {column.name: column for column in table.columns}
    if not set(call.identity) <= set(by_name):
        return None
    same = [
        target.c[name] == from_text(literal(value, Text), by_name[name].recorded)
        for name, value in zip(call.identity, key, strict=True)
    ]
    values = [printed(target.c[name]) for name in names]
    try:
        with connection.begin_nested():
            row = connection.execute(select(*values).where(*same)).first()
    except DBAPIError as error:
        if not sqlstate.caused_by_data(error):
            raise
        return None
    return None if row is None else dict(zip(names, row, strict=True))
