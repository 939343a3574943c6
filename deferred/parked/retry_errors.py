"""Retrying several parked transactions, one by one, in the order of their parking."""

from __future__ import annotations

from collections.abc import Sequence

from deferred.error_catalog import COLUMN_GONE
from deferred.errors import BadEdit, BadSkip
from deferred.parked import error_queue
from deferred.parked.edit import Edit
from deferred.parked.present_names import GoneColumns
from deferred.parked.retry import RetryReport, retry_alone
from sites import Site


def retry_errors(
    master: Site,
    error_ids: Sequence[int] | None = None,
    *,
    origin: str | None = None,
    reason: str | None = None,
    edits: Sequence[Edit] = (),
    skip: Sequence[int] = (),
    with_dependants: bool = False,
    without_gone: bool = False,
) -> list[RetryReport]:
    """Retry parked transactions in the order in which they were parked, one by one.

    Parameters:
        error_ids: which ones; None means all.
        origin: only those of this site.
        reason: if no ids are given, only those that are parked for it, as for
            `list_errors`.
        edits: only with a single id.
        skip: the numbers of calls to leave out, only with a single id. They stay
            parked under that id, with calls that refer to their rows.
        with_dependants: also those that wait for the chosen ones.
        without_gone: leave out the values of columns that the master has dropped; they
            are lost.

    A value of a column that is gone goes to one that was added with its name since, but
    only if the transaction's number, or the reason `column gone`, is given. A
    transaction that depends on one that was given up, or applied with other keys, is
    applied only if its number is given.

    Raises:
        NoSuchError, BadEdit, BadSkip, SiteUnreachable.
    """
    single = error_ids is not None and len(error_ids) == 1
    if edits and not single:
        raise BadEdit("Edits need exactly one error transaction.")
    if skip and not single:
        raise BadSkip("To leave calls out, name exactly one error transaction.")
    chosen = _chosen(master, error_ids, origin, reason, with_dependants=with_dependants)
    reports = []
    for error_id in chosen:
        named = error_id in (error_ids or ())
        gone = GoneColumns(by_name=named or reason == COLUMN_GONE, without=without_gone)
        # Those that wait for a single one are retried as they are.
        mine, without = (edits, skip) if named else ((), ())
        reports.append(
            retry_alone(master, error_id, mine, skip=without, named=named, gone=gone)
        )
    return reports


def _chosen(
    master: Site,
    error_ids: Sequence[int] | None,
    origin: str | None,
    reason: str | None,
    *,
    with_dependants: bool,
) -> list[int]:
    # In the order of parking: one may wait for another site's, from the same sender.
    errors = sorted(error_queue.list_errors(master, origin), key=lambda one: one.id)
    matching = (e.id for e in errors if reason in (None, e.reason))
    wanted = set(matching if error_ids is None else error_ids)
    with master.transaction() as connection:
        for error_id in wanted:
            error_queue.get(connection, error_id)
    if with_dependants:
        for error in errors:  # in order, so that chains are followed
            if wanted & set(error.waits_for):
                wanted.add(error.id)
    return [error.id for error in errors if error.id in wanted]
