"""Stops a refresh that would take an unusually large part of a snapshot away.

Rows that leave the condition are told apart from rows that the master deleted: an empty
master table is more often an accident than an intention, while rows may leave in masses
because one parent moved.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, literal, select

from deferred.options import RefreshOptions
from sites.words import counted
from snapshots.differences.window import Window
from snapshots.errors import MassDelete, MassLeave
from snapshots.merging import held_back, work
from snapshots.merging.work import Work
from snapshots.reports import reasons

#: Deletes of fewer rows than the share of this many are never a mass.
SMALL = 100


def refuse(
    connection: Connection, changes: Work, window: Window, options: RefreshOptions
) -> None:
    """Stop if more rows of a snapshot would go than the options allow.

    Raises:
        MassDelete, MassLeave: they would; the message says how many, and why.
    """
    few = options.mass_delete_share * SMALL
    going = work.counts(connection, changes).get("D", 0)
    if options.allow_mass_delete or going <= few:
        return
    # Rows that users have added, and the master does not know yet, stay.
    if options.keep_pending and held_back.hold_pending(connection, changes, window):
        going = work.counts(connection, changes).get("D", 0)
        if going <= few:
            return
    # Count no more rows than the decision needs.
    enough = int(going / options.mass_delete_share) + 1
    base = changes.staged.table.sql()
    some = select(literal(1)).select_from(base).limit(enough).subquery()
    rows = connection.scalar(select(func.count()).select_from(some)) or 0
    if going > options.mass_delete_share * rows:
        leaving = work.count_leaving(connection, changes)
        _refuse(changes, going - leaving, leaving, rows, options.mass_delete_share)


def _refuse(changes: Work, deleted: int, leaving: int, rows: int, most: float) -> None:
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
