"""Rows that a grant takes away from a site, told apart from rows that were deleted.

The master shows a login of a site nothing that is not granted to it, so both look alike
there. A fast refresh reads of deletes in the log. A row that is gone without one has
left the grant: its own values changed, its parent left, or other rows are granted now.
A complete refresh cannot tell, because logs need not reach back so far: it counts all
rows that are gone as taken away, so that nothing goes that a policy would have kept.
"""

from __future__ import annotations

from sqlalchemy import Select, SelectBase, exists, select

from deferred.queues import refresh_coverage
from deferred.queues.queue import find_queue
from sites.capture import position
from sites.extras import pa
from sites.transfer.types import NativeType
from snapshots import keys
from snapshots.differences.window import FAST, Member
from snapshots.keys import Keys, Sides

#: Why a row leaves that the master does not show any more.
WHY = "it is not granted any more"


def among(sides: Sides, member: Member, gone: Keys) -> Keys:
    """Of rows that are gone from a granted table, the keys of those that left it.

    A row that users of the site have added is none of them: the master may not have
    had it yet, or has refused it.

    Parameters:
        gone: the keys of the rows that the site has and the master does not show.
    """
    names, found = member.snapshot.key_names, [keys.none(member.snapshot.key_names)]
    queue = find_queue(sides.site.at, member.snapshot.key)
    for some in keys.chunks(gone):
        left: Keys | None = some
        if left and member.method == FAST:
            query = _not_among(left, member.key_types(member.master), _deleted(member))
            left = keys.read(sides.master, query, names)
        if left and queue is not None:
            added = refresh_coverage.added_keys(queue)
            query = _not_among(left, member.key_types(member.base), added)
            left = keys.read(sides.site, query, names)
        assert left is not None
        found.append(left)
    return pa.concat_tables(found)


def _deleted(member: Member) -> Select[tuple[object, ...]]:
    """The keys of rows of which the log says, since the last refresh: deleted."""
    log = member.log()
    assert member.since is not None
    return select(*(log.c[name] for name in member.snapshot.key_names)).where(
        position.since(log.c.xid, member.since), log.c.kind == "D"
    )


def _not_among(
    wanted: Keys, kinds: list[NativeType], others: SelectBase
) -> Select[tuple[object, ...]]:
    rows, other = keys.as_rows(wanted, kinds), others.subquery("other")
    same = (other.c[column.name] == column for column in rows.c)
    return select(*rows.c).where(~exists().where(*same))
