"""Rows that have left a snapshot with the policy keep.

They stand in a table of their own: in the snapshot's, they would take keys and unique
values from rows that come, and differ from the defining query. A row that comes back
into the condition is an ordinary row again, and is no longer among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, Text, cast, exists, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, array, insert

from deferred.parked import image
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables.table import with_tuples
from sites.transfer.types import PgSnapshot
from sites.writing.staged import selected
from snapshots.catalog import kept_row
from snapshots.definitions import snapshot
from snapshots.differences.window import Member
from snapshots.merging import work
from snapshots.merging.counts import Rows
from snapshots.merging.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRow:
    """A row that has left a snapshot, as the site had it then."""

    id: int
    snapshot: str
    #: in the order of the snapshot's identity columns, as the database prints them
    key: tuple[str, ...]
    #: by column, as the database prints them, with columns that only the site has
    values: Mapping[str, str | None]
    reason: str
    #: the moment of the master at which it did not belong to the snapshot any more
    position: str
    left_at: datetime


def list_kept(
    site: Site, name: str | None = None, *, limit: int | None = None
) -> list[KeptRow]:
    """Rows that have left snapshots and were kept, the latest first.

    Parameters:
        name: only those of this snapshot.
        limit: at most so many; None is all of them.

    Raises:
        UnknownSnapshot: there is none of that name.
    """
    with site.session() as connection:
        identity.read(connection)
        rows = select(kept_row).order_by(kept_row.c.id.desc()).limit(limit)
        if name is not None:
            key = snapshot.read(connection, name).key
            rows = rows.where(kept_row.c.snapshot == key)
        return [
            KeptRow(**with_tuples(row._mapping)) for row in connection.execute(rows)
        ]


def remove_kept(site: Site, name: str, ids: Sequence[int] | None = None) -> int:
    """Remove rows for good that have left a snapshot, and return how many.

    Parameters:
        ids: which of them; None is all of the snapshot.

    Raises:
        UnknownSnapshot: there is none of that name.
    """
    with site.transaction() as connection:
        identity.read(connection)
        gone = sa.delete(kept_row).where(
            kept_row.c.snapshot == snapshot.read(connection, name).key
        )
        if ids is not None:
            gone = gone.where(selected(kept_row, {"id": tuple(ids)}))
        return connection.execute(gone).rowcount


def count(connection: Connection, key: str) -> int:
    """How many rows of a snapshot are kept."""
    rows = select(func.count()).where(kept_row.c.snapshot == key)
    return connection.scalar(rows) or 0


def forget(connection: Connection, key: str) -> None:
    """Remove all kept rows of a snapshot that is dropped."""
    connection.execute(sa.delete(kept_row).where(kept_row.c.snapshot == key))


def keep(changes: Work, connection: Connection, rows: Rows) -> None:
    """Keep those of some rows that leave, before they are deleted."""
    base, table = changes.staged.table.sql(), changes.table
    names = changes.staged.table.names
    free = selected(table, rows.free)
    copies = (
        select(
            literal(changes.member.snapshot.key),
            _printed(changes.keys),
            image.as_json(names, [base.c[name] for name in names]),
            func.coalesce(table.c.cause, "its own change, or another condition"),
            cast(literal(changes.position), PgSnapshot()),
        )
        .join_from(table, base, changes.staged.same_row(base))
        .where(free, table.c.leaves)
    )
    columns = ["snapshot", "key", "values", "reason", "position"]
    again = insert(kept_row).from_select(columns, copies)
    newer = {name: again.excluded[name] for name in columns[2:]}
    connection.execute(
        again.on_conflict_do_update(
            index_elements=["snapshot", "key"],
            set_={**newer, "left_at": func.now()},
        )
    )


def among(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Which of these snapshots have kept rows."""
    named = func.unnest(cast(list(keys), ARRAY(Text)))
    wanted = named.table_valued("key", name="wanted").render_derived()
    there = exists().where(kept_row.c.snapshot == wanted.c.key)
    return set(connection.scalars(select(wanted.c.key).where(there)))


def release(connection: Connection, member: Member, came: Select[Any]) -> None:
    """Forget the kept rows that are in the snapshot again.

    Parameters:
        came: keys (k1, k2, ...) of rows that may be there now and were not before.
    """
    base, names = member.base.sql(), member.snapshot.identity_columns
    rows = came.subquery("came")
    pairs = [
        (rows.c[key], base.c[name], member.base.column(name))
        for key, name in zip(member.snapshot.key_names, names, strict=True)
    ]
    if all(column.exact for _, _, column in pairs):
        same = [kept_row.c.key == _printed(key for key, _, _ in pairs)]
    else:
        # Equal keys may be printed in several ways.
        same = [
            cast(kept_row.c.key[n], column.staged_type) == key
            for n, (key, _, column) in enumerate(pairs, 1)
        ]
    there = exists().where(*(value == key for key, value, _ in pairs))
    connection.execute(
        sa.delete(kept_row).where(
            kept_row.c.snapshot == member.snapshot.key, there, *same
        )
    )


def _printed(key: Iterable[sa.ColumnElement[Any]]) -> sa.ColumnElement[Any]:
    return array([cast(part, Text) for part in key], type_=ARRAY(Text))


def release_inserted(connection: Connection, group: Sequence[Work]) -> None:
    """Forget kept rows that were inserted again, if there are any."""
    there = among(connection, [changes.member.snapshot.key for changes in group])
    for changes in group:
        if changes.member.snapshot.key in there:
            release(connection, changes.member, work.inserted(changes))
