"""Asks the next refresh of a group to read rows again."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, literal, select

from snapshots.check.reasons import RECTIFY
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences.window import Member
from snapshots.keys import Keys, as_rows, chunks


def ask(connection: Connection, member: Member, wanted: Keys) -> None:
    """Name rows of a snapshot among its extra keys, unless they are asked for already.

    Writes the extra keys; commits nothing.
    """
    snapshot = member.snapshot
    extra, names = snapshot.extra(), snapshot.key_names
    kinds = member.key_types(member.base)
    for some in chunks(wanted):
        rows = select(*as_rows(some, kinds).c).distinct().subquery("asked")
        there = sa.exists().where(
            extra.c.reason == RECTIFY, *(extra.c[k] == rows.c[k] for k in names)
        )
        given = select(*(rows.c[k] for k in names), literal(RECTIFY)).where(~there)
        connection.execute(sa.insert(extra).from_select([*names, "reason"], given))


def withdraw(connection: Connection, snapshot: Snapshot) -> None:
    """Ask for nothing any more, so that later refreshes do not read the rows either.

    Writes the extra keys; commits nothing.
    """
    extra = snapshot.extra()
    connection.execute(sa.delete(extra).where(extra.c.reason == RECTIFY))
