"""Write the differences of a group to its snapshots, in one local transaction.

READ COMMITTED, with a lock timeout below the deadlock timeout: in a deadlock the
merge gives way, not the user. Rows that users hold, want or have changed are left
alone (`snapshots.merging.held_back`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, func, literal, select

from deferred.options import RefreshOptions
from sites.sessions import exchange
from sites.sessions.exchange import Bound
from sites.tables import instead, locks, references
from sites.tables.table import Table
from sites.words import counted
from sites.writing import unique_values
from sites.writing.triggered import users_search_path
from snapshots.definitions import (
    frozen,
    refresh_group,
)
from snapshots.definitions.policy import Leaving
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.differences.moment import Moment
from snapshots.differences.window import Member
from snapshots.errors import CannotMerge, MassDelete, MassLeave
from snapshots.merging import counts, detached, held_back, kept, work, writing
from snapshots.merging.counts import Outcome, Rows
from snapshots.merging.held_keys import BETWEEN, HELD, REFUSED
from snapshots.merging.work import Work
from snapshots.reports import SnapshotReport, reasons

#: Far below deadlock_timeout (1 s by default). PostgreSQL looks for a deadlock when a
#: user's session has waited that long for the merge: it finds one only if the merge
#: waits for that session within the same few milliseconds. Rows that the merge gives
#: up in this way are held back.
LOCK_TIMEOUT = "20ms"

#: Sorts and joins of many differences need this much to stay in memory.
WORK_MEMORY = 32 * 2**20

#: If the program is stopped during a merge, its locks block users no longer than this.
IDLE_TIMEOUT = "30s"

#: Deletes of fewer rows than the share of this many are never a mass.
FEW_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of a merge for one snapshot."""

    report: SnapshotReport
    #: the rows that are held back, by what holds them back
    held: Mapping[str, int] = field(default_factory=dict)


def prepare(
    connection: Connection, group: RefreshGroup, members: Sequence[Member] = ()
) -> dict[str, int]:
    """Begin a merge: lock the group at its position, and apply settings and origin.

    It waits for whoever creates or alters a snapshot of the group, and only then
    for nobody longer than `LOCK_TIMEOUT`.

    Returns:
        The work tables that the session has kept for some members: `work.kept_sizes`.

    Raises:
        PositionMoved: another refresh of the group came in between.
    """
    refresh_group.lock_at(connection, group)
    set_local = select(
        func.set_config("lock_timeout", LOCK_TIMEOUT, True),
        func.set_config("idle_in_transaction_session_timeout", IDLE_TIMEOUT, True),
        func.set_config("snaptide.origin", group.master, True),
        func.set_config("synchronous_commit", "on", True),
        func.set_config("work_mem", _work_memory(), True),
        work.kept_sizes(members).label("sizes"),
    )
    return connection.execute(set_local).one().sizes or {}


def _work_memory() -> ColumnElement[str]:
    """As much as the site gives, but not less than we need."""
    given = func.pg_size_bytes(func.current_setting("work_mem"))
    return sa.cast(func.greatest(given, WORK_MEMORY) / 1024, Text) + "kB"


def merge(
    connection: Connection,
    group: Sequence[Work],
    window: Moment,
    options: RefreshOptions,
) -> dict[str, Merged]:
    """Write the differences that are not held back; the caller has called `prepare`.

    Writes base tables and extra keys; commits nothing.

    Parameters:
        group: the work tables of all loaded snapshots of the group, filled.

    Raises:
        MassDelete, MassLeave: more rows would go than the options allow.
        CannotMerge: the site refuses the rows, whatever is held back.
    """
    exchange.hold(connection, Bound(b"SET CONSTRAINTS ALL DEFERRED", kept=False))
    tables = [changes.staged.table for changes in group]
    if any(unique.deferrable for table in tables for unique in table.uniques):
        unique_values.check_at_once(connection, tables)
    if not options.allow_mass_delete:
        free = counts.free_rows(connection, group)
        for changes in group:
            rows = free[changes.staged.table.qualified]
            _refuse_mass(connection, changes, rows, window, options)
    ordered = writing.in_order(group)
    for changes in group:
        _refuse_instead(changes.staged.table)
    if not _write_at_once(connection, ordered, window, options):
        # Check keys to and from the site's own tables at once, to find refused rows.
        references.check_outside(connection, [w.staged.table.oid for w in group])
        _write_locked(connection, ordered, window, options)
    found = counts.outcomes(connection, group)
    done = [(w, _count(w, each)) for w, each in zip(group, found, strict=True)]
    if came := [w for w, merged in done if merged.report.inserted]:
        kept.release_inserted(connection, came)
    for changes, merged in done:
        if merged.report.held_back:
            _keep_held(connection, changes)
    return {changes.member.snapshot.key: merged for changes, merged in done}


def _refuse_mass(
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
        gone = select(func.count()).where(changes.free, changes.table.c.leaves)
        leaving = connection.scalar(gone) or 0
        _refuse_rows(changes, going - leaving, leaving, rows, options.mass_delete_share)


def _deletes(free: Mapping[str, Rows]) -> int:
    return free["D"].count if "D" in free else 0


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


def _refuse_instead(base: Table) -> None:
    if base.instead is not None:
        raise CannotMerge(
            f"{instead.message(base.qualified, base.instead)}.", rule=base.instead
        )


def _write_at_once(
    connection: Connection,
    group: Sequence[Work],
    window: Moment,
    options: RefreshOptions,
) -> bool:
    """Write without locking the rows before, if no other session is writing.

    Locking a row costs as much as writing it. Changes that users make meanwhile are
    found once all rows are written, and so locked: a new statement then asks for
    pending rows, as it would after locking. Only children that a foreign key's action
    would reach are not among the rows that are written.
    """
    tables = [w.staged.table.oid for w in group]
    if locks.others_write(connection, tables):
        return False
    if held_back.acts_on_children(connection, group):
        return False
    attempt = connection.begin_nested()
    _hold_pending(connection, group, window, options)
    written = writing.write_all(connection, group)
    if not written or _hold_pending(connection, group, window, options):
        attempt.rollback()
        return False
    attempt.commit()
    return True


def _write_locked(
    connection: Connection,
    group: Sequence[Work],
    window: Moment,
    options: RefreshOptions,
) -> None:
    detached.bring(connection, group)
    for changes in group:
        held_back.hold_locked(connection, changes)
    _hold_pending(connection, group, window, options)
    with users_search_path(connection):
        writing.write_free(connection, group)


def _hold_pending(
    connection: Connection,
    group: Sequence[Work],
    window: Moment,
    options: RefreshOptions,
) -> int:
    """Hold back rows that users changed, unless told not to; return how many."""
    if not options.keep_pending:
        return 0
    return held_back.hold_pending(connection, group, window)


def _count(changes: Work, found: Sequence[Outcome]) -> Merged:
    written = Counter[str]()
    refused = Counter[str]()
    staying = Counter[str]()
    held = Counter[str]()
    for one in found:
        if not one.held:
            written[one.kind] += one.rows
        else:
            held[held_back.word(one.by or "")] += one.rows
            if one.leaves:
                staying[one.by or ""] += one.rows
        if one.why is not None:
            refused[one.why] += one.rows
    report = SnapshotReport(
        name=changes.member.snapshot.key,
        method=changes.member.method,
        inserted=written["I"],
        updated=written["U"],
        deleted=written["D"],
        left=sum(one.rows for one in found if one.leaves and not one.held),
        because=changes.because,
        staying=dict(sorted(staying.items(), key=lambda by: (-by[1], by[0]))),
        held_back=held.total(),
        refused=dict(sorted(refused.items(), key=lambda why: (-why[1], why[0]))),
    )
    return Merged(report=report, held=held)


def _keep_held(connection: Connection, changes: Work) -> None:
    """Have the next refresh look again at the rows that this one held back."""
    extra, names = changes.member.snapshot.extra(), changes.member.snapshot.key_names
    reason: ColumnElement[str] = func.coalesce(
        f"{REFUSED}{BETWEEN}" + changes.table.c.why,
        f"{HELD}{BETWEEN}" + changes.table.c.by,
    )
    if changes.member.snapshot.leaving == Leaving.FREEZE:
        reason = sa.case((changes.table.c.leaves, frozen.REASON), else_=reason)
    rows = select(*changes.keys, reason).where(changes.table.c.held)
    connection.execute(sa.insert(extra).from_select([*names, "reason"], rows))
