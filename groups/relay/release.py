"""Ending the quiet of a group: apply the transactions held back for it, in order."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa

from deferred.error_catalog import error_transaction
from deferred.errors import NoSuchError, RetryFailed, WaitsForError
from deferred.parked import error_dependencies, error_queue
from deferred.parked.retry import RetryReport, retry_alone
from groups.relay import holds
from sites import Site
from sites.sessions import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Unquieted:
    """The outcome of the transactions that were held back for a group."""

    master: str
    #: False if the group was not quiet
    was_quiet: bool
    applied: int
    #: transactions that stay parked, and why; also those that wait for them
    left: tuple[RetryReport, ...]


def unquiet(master: Site, group: uuid.UUID) -> Unquieted:
    """End the quiet of a group, and apply the transactions held back for it.

    Each transaction is retried by itself, in the order in which they came, with those
    that depend on it. Transactions that touch another quiet group stay parked for that
    one. If the command is interrupted, run it again: it goes on.

    Raises:
        SiteUnreachable.
    """
    with identity.confirmed(master) as connection:
        was_quiet = holds.end(connection, group)
    applied = 0
    while True:
        # A transaction that a push brings meanwhile depends on these, or is applied.
        reports = _retried(master, _ready(master))
        done = sum(report.applied for report in reports)
        applied += done
        if not done:
            break
    left = tuple(reports)
    _note_failures(master, left)
    return Unquieted(
        master=master.name,
        was_quiet=was_quiet,
        applied=applied,
        left=left,
    )


def _ready(master: Site) -> list[int]:
    """The transactions held back, and all that depend on them, in order."""
    with master.transaction() as connection:
        wanted = set(holds.no_longer_held(connection))
    if wanted:
        for error in sorted(error_queue.list_errors(master), key=lambda e: e.id):
            if error.reason == error_dependencies.DEPENDANT and wanted & set(
                error.waits_for
            ):
                wanted.add(error.id)
    return sorted(wanted)


def _retried(master: Site, error_ids: list[int]) -> list[RetryReport]:
    """Retry each by itself; skip those that another session has settled meanwhile."""
    reports = []
    for error_id in error_ids:
        with suppress(NoSuchError):
            reports.append(retry_alone(master, error_id))
    return reports


def _note_failures(master: Site, left: tuple[RetryReport, ...]) -> None:
    """Store in the error queue why each is still parked, now that no group is quiet."""
    parked = error_transaction.alias()
    at = error_transaction.c
    waits = sa.exists().where(parked.c.id == sa.any_(at.waits_for))
    with master.transaction() as connection:
        for report in left:
            connection.execute(
                sa.update(error_transaction)
                .where(at.id == report.error_id, at.reason == error_dependencies.HELD)
                .values(
                    reason=sa.case(
                        (waits, error_dependencies.DEPENDANT), else_="error"
                    ),
                    error_code=sa.case(
                        (waits, WaitsForError.code), else_=RetryFailed.code
                    ),
                    error_message=report.reason,
                )
            )
