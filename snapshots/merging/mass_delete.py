"""Stops a merge by which more rows of a snapshot would go than the options allow."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, literal, select

from deferred.options import RefreshOptions
from sites.words import counted
from snapshots.differences.moment import Moment
from snapshots.errors import MassDelete, MassLeave
from snapshots.merging import counts, held_back
from snapshots.merging.counts import Rows
from snapshots.merging.work import Work
from snapshots.reports import reasons

#: Deletes of fewer rows than the share of this many are never a mass.
FEW_ROWS = 100


def refuse(
    connection: Connection,
    changes: Work,
    free: Mapping[str, Rows],
    window: Moment,
    options: RefreshOptions,
) -> None:
    """Stop if more rows of a snapshot would go than the options allow.

    Rows that leave the condition are told apart from rows that the master deleted: an
    empty master table is more often an accident than an intention, while rows may leave
    in masses because one parent moved.

    Raises:
        MassDelete, MassLeave: they would; the message says how many, and why.
    """
    few = options.mass_delete_share * FEW_ROWS
    going = _deletes(free)
    if going <= few:
        return
    # Rows that users have added, and the master does not know yet, stay.
    if options.keep_pending and held_back.hold_pending(connection, [changes], window):
        still = counts.free_rows(connection, [changes])
        going = _deletes(still[changes.staged.table.qualified])
        if going <= few:
            return
    # Count no more rows than the decision needs.
    enough = int(going / options.mass_delete_share) + 1
    base = changes.staged.table.sql()
    some = select(literal(1)).select_from(base).limit(enough).subquery()
    rows = connection.scalar(select(func.count()).select_from(some)) or 0
    if going > options.mass_delete_share * rows:
        leaving = _count_leaving(connection, changes)
        _refuse_rows(changes, going - leaving, leaving, rows, options.mass_delete_share)


def _deletes(free: Mapping[str, Rows]) -> int:
    return free["D"].count if "D" in free else 0


def _count_leaving(connection: Connection, changes: Work) -> int:
    """How many rows leave the snapshot that are not held back."""
    rows = select(func.count()).where(changes.free, changes.table.c.leaves)
    return connection.scalar(rows) or 0


def _refuse_rows(
    changes: Work, deleted: int, leaving: int, rows: int, most: float
) -> None:
    name = changes.member.snapshot.key
    because = reasons(changes.because)
    facts = {"snapshot": name, "deletes": deleted, "leaving": leaving, "rows": rows}
    if leaving > most * rows:
        raise MassLeave(
            f"{leaving:,} of {counted(rows, 'row')} of {name} would leave it{because}.",
            **facts,
        )
    also = f", and {counted(leaving, 'row')} would leave it{because}" if leaving else ""
    raise MassDelete(
        f"The refresh would delete {deleted:,} of {counted(rows, 'row')} of "
        f"{name}{also}.",
        **facts,
    )
