"""Notes at the site what a refresh has seen and merged, in the merge's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy import Connection, Text, func

from deferred.queues import refresh_coverage, target_columns
from deferred.queues.queue import Queue, extra_keys
from sites.capture import position
from sites.sessions.prepared import Prepared
from sites.transfer.types import PgSnapshot
from snapshots import catalog
from snapshots.definitions import parents, refresh_group, rewrites
from snapshots.definitions.refresh_group import RefreshGroup
from snapshots.definitions.refresh_notes import Done
from snapshots.definitions.snapshot import NOT_BEHIND, Snapshot
from snapshots.differences.moment import Moment
from snapshots.differences.window import Member, Window
from snapshots.errors import PositionMoved
from snapshots.merging import held_back
from snapshots.merging.merge import Merged

#: What the rows of a snapshot are read and written by, and whether they are all to be
#: compared (`rewrites.compared_once`). Another refresh that changes it moves the group.
_READ = (
    *("schema", "name", "columns", "condition", "leaving", "loaded"),
    *("master_files", "parents"),
)


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
                **{f"its_{name}": getattr(member.snapshot, name) for name in _READ},
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
            for name in _READ
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
