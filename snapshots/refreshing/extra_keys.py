"""Makes room for keys that the master has become able to hold, and the site has not.

A row with such a key is held back, as any that the site refuses. Its key is kept where
the next refresh finds it: in the table of extra keys, which was made with the types of
that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from psycopg import errors as pg
from psycopg import sql
from sqlalchemy import Connection

from sites.catalog import SCHEMA
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.sessions.site import Site
from sites.tables import ddl, locks
from sites.tables.table import describe
from sites.transfer.values import unsized
from snapshots.creating import base_table
from snapshots.differences.window import Member

_LATER = (pg.LockNotAvailable, pg.DependentObjectsStillExist)


def make_room(site: Site, members: Sequence[Member]) -> None:
    """Widen the tables of extra keys where the master has wider keys; commits.

    Users write extra keys too, and are not kept waiting: a table that cannot be locked
    within a moment is left to a later refresh. So is one whose updatable snapshot log
    is read by a view of the users'.

    Parameters:
        members: those whose keys have another type at the master than at the site.
    """
    for member in members:
        with suppress(*_LATER), site.transaction() as connection:
            locks.briefly(connection)
            _widen(connection, member)


def _widen(connection: Connection, member: Member) -> None:
    snapshot = member.snapshot
    table = QualifiedName(SCHEMA, snapshot.extra_table)
    narrow = _narrow(connection, member, table)
    if narrow:
        ddl.drop_view(connection, QualifiedName(SCHEMA, snapshot.log_view))
        types = [
            sql.SQL("ALTER {} TYPE {}").format(sql.Identifier(key), sql.SQL(kind))
            for key, kind in narrow.items()
        ]
        raw(connection).execute(
            sql.SQL("ALTER TABLE {} {}").format(
                identifier(table), sql.SQL(", ").join(types)
            )
        )
        base_table.make_log_view(connection, snapshot)


def _narrow(
    connection: Connection, member: Member, table: QualifiedName
) -> Mapping[str, str]:
    """The columns of a table of extra keys that may be too small, with new types."""
    extra, snapshot = describe(connection, table), member.snapshot
    found = {}
    for key, name in zip(snapshot.key_names, snapshot.identity_columns, strict=True):
        column = extra.column(key)
        kind = unsized(column.as_large_as(member.common.column(name)).recorded)
        if kind != column.type:
            found[key] = kind
    return found
