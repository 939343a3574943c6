"""Lists the rows that refreshes of a group have left alone, and why.

They are those that the updatable snapshot logs name, besides the calls of the site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, Subquery, Text, cast, func, select

from sites.catalog import SCHEMA
from sites.sessions import identity
from sites.sessions.site import Site
from snapshots.definitions import refresh_group, snapshot
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.definitions.snapshot import Snapshot

#: Why a refresh left a row alone: a user has it, or the site refuses it.
HELD, REFUSED = "held", "refused"
#: Stands between this and what is known besides: what holds it, what the site says.
BETWEEN = ": "


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """A row that the next refresh looks at again."""

    snapshot: str
    #: in the order of the snapshot's identity columns, as the database prints them
    key: tuple[str, ...]
    #: held, refused, frozen, trigger, folded, synchronous or rectify
    by: str
    #: what the site says, if it refuses the row; what holds it, if it is held
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCount:
    """How many rows of a snapshot the next refresh looks at again for one reason."""

    snapshot: str
    by: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """The rows of a refresh group that its next refresh looks at again."""

    site: str
    group: str
    #: exact, however many rows are listed
    counts: tuple[HeldCount, ...]
    rows: tuple[HeldRow, ...]

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(one.rows for one in self.counts)


def list_held(
    site: Site, group: str, *, limit: int | None = None, offset: int = 0
) -> HeldRows:
    """Rows of a refresh group that refreshes have left alone, by snapshot and key.

    Parameters:
        limit: at most so many; None is all of them.
        offset: leave out so many before.

    Raises:
        UnknownSnapshot: there is no group of that name.
    """
    with site.session() as connection:
        identity.read(connection)
        if refresh_group.find(connection, group) is None:
            raise UnknownSnapshot(f"There is no refresh group {group}.", group=group)
        counts: list[HeldCount] = []
        rows: list[HeldRow] = []
        for member in _with_rows(connection, snapshot.members(connection, group)):
            found = _counts(connection, member)
            here, counts = sum(one.rows for one in found), [*counts, *found]
            wanted = here if limit is None else min(limit - len(rows), here)
            if offset < here and wanted:
                rows += _rows(connection, member, wanted, offset)
            offset = max(offset - here, 0)
    return HeldRows(site=site.name, group=group, counts=(*counts,), rows=(*rows,))


def _with_rows(connection: Connection, members: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots whose tables of extra keys are not empty files, by name."""
    given = {"schema": SCHEMA, "tables": [one.extra_table for one in members]}
    filled = set(connection.scalars(_FILLED, given))
    return sorted((m for m in members if m.extra_table in filled), key=lambda m: m.key)


_FILLED = sa.text("""
SELECT c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = ANY (CAST(:tables AS text[]))
  AND pg_relation_size(c.oid) > 0
""")


def _counts(connection: Connection, member: Snapshot) -> list[HeldCount]:
    keys = _keys(member)
    query = select(keys.c.by, func.count()).group_by(keys.c.by).order_by(keys.c.by)
    return [
        HeldCount(snapshot=member.key, by=by, rows=rows)
        for by, rows in connection.execute(query)
    ]


def _rows(
    connection: Connection, member: Snapshot, limit: int, offset: int
) -> list[HeldRow]:
    keys = _keys(member)
    query: Select[Any] = select(keys).order_by(*keys.c).limit(limit).offset(offset)
    return [
        HeldRow(snapshot=member.key, key=tuple(key), by=by, why=why)
        for by, why, *key in connection.execute(query)
    ]


def _keys(member: Snapshot) -> Subquery:
    """Each key once for each reason."""
    extra = member.extra()
    by = func.split_part(extra.c.reason, BETWEEN, 1)
    more = func.substr(extra.c.reason, func.length(by) + len(BETWEEN) + 1)
    return (
        select(
            by.label("by"),
            func.nullif(more, "").label("why"),
            *(cast(extra.c[name], Text).label(name) for name in member.key_names),
        )
        .distinct()
        .subquery("extra_keys")
    )
