"""Write the differences of a group to its snapshots, in one local transaction.

READ COMMITTED, with a lock timeout below the deadlock timeout: in a deadlock the
merge gives way, not the user. Rows that users hold, want or have changed are left
alone (`snapshots.merging.held_back`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, func, select

from deferred.options import RefreshOptions
from deferred.queues import refresh_coverage, target_columns
from deferred.queues.queue import Queue, extra_keys
from sites.capture import position
from sites.sessions import exchange
from sites.sessions.exchange import Bound
from sites.sessions.prepared import Prepared
from sites.tables import instead, locks, references
from sites.tables.table import Table
from sites.transfer.types import PgSnapshot
from sites.writing import unique_values
from sites.writing.triggered import users_search_path
from snapshots import catalog
from snapshots.definitions import (
    frozen,
    parents,
    refresh_group,
    rewrites,
    unaltered,
)
from snapshots.definitions.policy import Leaving
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.refresh_notes import Done
from snapshots.definitions.snapshot import NOT_BEHIND, Snapshot
from snapshots.differences.moment import Moment
from snapshots.differences.window import Member, Window
from snapshots.errors import CannotMerge, PositionMoved
from snapshots.merging import (
    counts,
    detached,
    held_back,
    kept,
    mass_delete,
    work,
    writing,
)
from snapshots.merging.counts import Outcome
from snapshots.merging.held_keys import BETWEEN, HELD, REFUSED
from snapshots.merging.work import Work
from snapshots.reports import SnapshotReport

#: Far below deadlock_timeout (1 s by default). PostgreSQL looks for a deadlock when a
#: user's session has waited that long for the merge: it finds one only if the merge
#: waits for that session within the same few milliseconds. Rows that the merge gives
#: up in this way are held back.
LOCK_TIMEOUT = "20ms"

#: Sorts and joins of many differences need this much to stay in memory.
WORK_MEMORY = 32 * 2**20

#: If the program is stopped during a merge, its locks block users no longer than this.
IDLE_TIMEOUT = "30s"


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
        The work tables that the session has kept for some members: `work.sizes`.

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
        work.sizes(members).label("sizes"),
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
            mass_delete.refuse(connection, changes, rows, window, options)
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


def clear(
    connection: Connection,
    snapshots: Sequence[Snapshot],
    window: Moment,
    local_position: str,
) -> None:
    """Clear the extra keys of snapshots that were read and are covered.

    Parameters:
        local_position: of the site, as the images were read.
    """
    if snapshots:
        extras = tuple((one.extra_table, one.identity_columns) for one in snapshots)
        values = held_back.given(window)
        _clearing(extras).run(connection, its_place=local_position, **values)


@lru_cache(maxsize=128)
def _clearing(extras: tuple[tuple[str, tuple[str, ...]], ...]) -> Prepared:
    """Clears some tables of extra keys; takes `its_place` and `held_back.GIVEN`.

    Building it takes longer than running it.
    """
    here = sa.cast(sa.bindparam("its_place", type_=Text), PgSnapshot())
    *others, last = (
        sa.delete(extra).where(
            position.visible(extra.c.xid, here),
            held_back.covered_extras(extra, held_back.GIVEN),
        )
        for extra in (extra_keys(*one) for one in extras)
    )
    ctes = (one.cte(f"cleared_{number}") for number, one in enumerate(others))
    return Prepared(last.add_cte(*ctes))


def settle(
    connection: Connection,
    group: RefreshGroup,
    window: Window,
    methods: Mapping[str, str],
    merged: Mapping[str, Merged],
    queues: Mapping[str, Queue],
    done: Done,
) -> None:
    """Note the moment that the group shows now, and how far it covers the queues.

    Rows that the site refused become the group's last error, as snapshots that stay
    behind do: only people can settle that. Whether the site has agreed with a restored
    master meanwhile is asked last, with the group's row.

    Parameters:
        queues: by snapshot.
        done: what the refresh did, without what the site refused.

    Raises:
        PositionMoved: the master was repaired meanwhile; pending rows were
            judged by a marker that is gone.
        TargetColumnsMoved: calls wait that were made for other columns.
    """
    keys = [m.snapshot.key for m in window.members]
    refresh_coverage.cover(
        connection, keys, window.marker.batch_no, window.marker.order_no
    )
    for member in window.members:
        queue = queues.get(member.snapshot.key)
        if queue is not None and not queue.is_made_for(member.master):
            target_columns.note(connection, queue, member.master)
    _note(connection, window.members, methods)
    refresh_group.advance(
        connection,
        group,
        window.position,
        window.master.incarnation,
        replace(done, error=_together(done.error, _refusals(merged))),
    )


def _together(*said: str | None) -> str | None:
    return ". ".join(filter(None, said)) or None


def _refusals(merged: Mapping[str, Merged]) -> str | None:
    """One line on the rows that the site refused."""
    parts = [
        f"{count} of {name}: {why}"
        for name, done in merged.items()
        for why, count in done.report.refused.items()
    ]
    return f"The site refuses rows; {'; '.join(parts)}" if parts else None


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


def _note(
    connection: Connection, members: Sequence[Member], methods: Mapping[str, str]
) -> None:
    """Note what the refresh has seen of each master table.

    Raises:
        PositionMoved: a snapshot was altered, or dropped, since the refresh read it.
    """
    noted = connection.execute(
        _NOTING,
        [
            {
                **{
                    f"its_{name}": getattr(member.snapshot, name)
                    for name in unaltered.READ
                },
                "last_method": methods[member.snapshot.key],
                **_facts(member),
            }
            for member in members
        ],
    )
    if noted.rowcount != len(members):
        raise PositionMoved("Snapshots of the group were altered in the meantime.")


#: Notes facts about a snapshot as long as it is as it was read.
_NOTING = (
    sa.update(catalog.snapshot)
    .where(
        *(
            column.is_not_distinct_from(sa.bindparam(f"its_{name}", type_=column.type))
            for name in unaltered.READ
            for column in [catalog.snapshot.c[name]]
        )
    )
    .values(loaded=True, **NOT_BEHIND, last_refresh=func.clock_timestamp())
)


def _facts(member: Member) -> dict[str, object]:
    seen = member.schema_version
    asked = parents.facts(member.snapshot, member.parents) if member.parents else {}
    return {
        **rewrites.seen(member.snapshot, member.states, member.files),
        "parents": {**asked, rewrites.FUNCTIONS: member.functions},
        "schema_group": None if seen is None else seen.group_id,
        "schema_version": None if seen is None else seen.version,
    }
