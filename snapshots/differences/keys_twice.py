"""Finds rows of a master table that share a key, where no index forbids it.

A key holds for all partitions of a table, but not for tables that inherit from it.
"""

from __future__ import annotations

from sqlalchemy import Connection, Text, cast, func, select

from snapshots.differences import images
from snapshots.differences.window import FAST, Member
from snapshots.errors import KeyNotUnique


def refuse(master: Connection, member: Member) -> None:
    """Make sure that the rows which a refresh looks at have each a key of its own.

    A table that has partitions is not asked. Each later row is looked at when its
    change has been logged.

    Parameters:
        master: in the moment that the refresh reads.

    Raises:
        KeyNotUnique.
    """
    if member.master.kind == "p":
        return
    snapshot = member.snapshot
    rows = images.kept(member)
    key = [rows.c[name] for name in snapshot.identity_columns]
    query = select(*(cast(one, Text) for one in key)).group_by(*key)
    if member.method == FAST:
        assert member.since is not None
        changed = images.changed_keys(member, member.since).subquery("changed")
        query = query.select_from(
            rows.join(changed, images.same(member, rows, changed))
        )
    twice = master.execute(query.having(func.count() > 1).limit(1)).one_or_none()
    if twice is not None:
        values = ", ".join(map(str, twice))
        raise KeyNotUnique(
            f"{snapshot.master} and the tables that inherit from it have several rows "
            f"whose {', '.join(snapshot.identity_columns)} is {values}.",
            snapshot=snapshot.key,
            key=[*twice],
        )
