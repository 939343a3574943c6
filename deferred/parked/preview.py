"""What a retry would come to: it is done, looked at, and rolled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.error_catalog import error_call
from deferred.errors import RetryFailed, WaitsForError
from deferred.parked import calls, edit, error_queue, rows_now
from deferred.parked.calls import Call
from deferred.parked.edit import Edit
from deferred.parked.image import Image
from deferred.parked.present_names import GoneColumns
from deferred.parked.retry import begin, retry
from deferred.parked.rows_now import Place
from sites import Site
from sites.retry import in_new_sessions
from sites.sessions import identity

#: The number of a call, and a row that it finds or makes.
_Place = tuple[int, Place]


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
    without_gone: bool = False,
    limit: int = 100,
) -> ErrorPreview:
    """Find out what a retry would do, without doing it.

    The retry runs in a transaction that is rolled back, so it waits for the same locks,
    and custom routines and procedures are called as in a retry.

    Parameters:
        skip: the numbers of calls that the retry would leave out.
        without_gone: whether it would leave out the values of columns that are gone.
        limit: show the rows of so many calls.

    Raises:
        NoSuchError, BadEdit, BadSkip, SiteUnreachable.
    """

    def work() -> ErrorPreview:
        with identity.confirmed(master) as connection:
            begin(connection, error_id, GoneColumns(by_name=True, without=without_gone))
            found = _tried(connection, master, error_id, edits, skip, limit)
            if (transaction := connection.get_transaction()) is not None:
                transaction.rollback()
            return found

    try:
        return in_new_sessions(master.release, work)
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
                table=str(place.target),
                before=before[call_no, place],
                after=after[call_no, place],
            )
            for call_no, place in before
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
    places = {
        (call.call_no, place): None
        for call in wanted
        for image in (call.old, call.new)
        if image is not None
        for place in [_place(call, image)]
    }
    found = rows_now.read(connection, [place for _, place in places])
    return {(number, place): found.get(place) for number, place in places}


def _place(call: Call, image: Image) -> Place:
    key = tuple(image.get(name) for name in call.identity)
    return Place(call.target, call.identity, key, call.columns)
