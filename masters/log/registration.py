"""Registering snapshots at their master, so that its logs keep changes for them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ARRAY, ColumnElement, Connection, Row, Text, func, select
from sqlalchemy.dialects.postgresql import insert

from masters.catalog import image, registered_snapshot
from masters.log import catalog, log_function
from sites.names import QualifiedName
from sites.sessions import settings
from sites.sessions.prepared import Prepared, as_json
from sites.transfer.types import PgSnapshot

_at = registered_snapshot.c


def register(
    connection: Connection,
    *,
    site_id: uuid.UUID,
    site_name: str,
    snapshot: str,
    table: QualifiedName,
    parents: Sequence[QualifiedName],
    updatable: bool,
) -> None:
    """Register a snapshot at its master; its logs keep nothing for it yet.

    Writes `registered_snapshot`. A snapshot of that name of the same site that
    is registered already is replaced. If a log may be dropped by now, `keep_logs`
    comes before.

    Parameters:
        table: the master table.
        parents: the other tables that the snapshot's condition asks.
    """
    values = {
        "site_name": site_name,
        "table_schema": table.schema,
        "table_name": table.name,
        "parents": [*map(str, parents)],
        "updatable": updatable,
        "position": None,
    }
    statement = insert(registered_snapshot).values(
        site_id=site_id, snapshot=snapshot, **values
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[_at.site_id, _at.snapshot], set_=values
        )
    )


def keep_logs(connection: Connection, tables: Collection[QualifiedName]) -> None:
    """Make sure that tables have their logs when what is registered now is committed.

    Who drops a log waits for this transaction, and sees the snapshots that use it.

    Raises:
        NoSnapshotLog: a log was dropped since the caller has seen it.
    """
    log_function.keep(connection, tables)
    for table in tables:
        catalog.get_log(connection, table)


def of_log(table: QualifiedName) -> ColumnElement[bool]:
    """Whether a registered snapshot is refreshed by the log of a table."""
    own = sa.and_(_at.table_schema == table.schema, _at.table_name == table.name)
    return sa.or_(own, sa.literal(str(table)) == sa.any_(_at.parents))


#: Whether a registration is that of a snapshot, and not of an image's table.
OF_SITE = _at.site_id.not_in(select(image.c.id))


def of_table(
    connection: Connection, table: QualifiedName
) -> Sequence[Row[Any, Any, Any]]:
    """The site's id and name and the key of each snapshot of a table, by site."""
    return _by_site(
        connection, _at.table_schema == table.schema, _at.table_name == table.name
    )


def asking(
    connection: Connection, table: QualifiedName
) -> Sequence[Row[Any, Any, Any]]:
    """The same of each snapshot of a table, and of each whose condition asks it."""
    return _by_site(connection, of_log(table))


def _by_site(
    connection: Connection, *of: ColumnElement[bool]
) -> Sequence[Row[Any, Any, Any]]:
    wanted = select(_at.site_id, _at.site_name, _at.snapshot).where(*of, OF_SITE)
    return connection.execute(wanted.order_by(_at.site_name, _at.snapshot)).all()


def take_over(
    connection: Connection,
    site_id: uuid.UUID,
    snapshots: Mapping[str, QualifiedName],
    image_id: uuid.UUID,
    position: str,
) -> set[str]:
    """Have the logs keep for snapshots what they keep for an image.

    The image cannot be dropped before the commit: in no moment are the changes since
    the image kept for neither. Writes `registered_snapshot`.

    Parameters:
        snapshots: registered ones that have the image's rows, each with its table.
        position: of the image, which the snapshots show. A master that was restored to
            the time when the image was being made knows it with another one.

    Returns:
        Those of them for whose table the image is still registered.
    """
    of_image = select(_at.table_schema, _at.table_name, _at.position).where(
        _at.site_id == image_id, sa.cast(_at.position, Text) == position
    )
    kept = of_image.with_for_update(read=True).cte("kept")
    moved = (
        sa.update(registered_snapshot)
        .where(
            _at.site_id == site_id,
            sa.tuple_(_at.snapshot, _at.table_schema, _at.table_name).in_(
                [(name, one.schema, one.name) for name, one in snapshots.items()]
            ),
            kept.c.table_schema == _at.table_schema,
            kept.c.table_name == _at.table_name,
        )
        .values(position=kept.c.position, refreshed_at=func.now())
        .returning(_at.snapshot)
    )
    return {*connection.scalars(moved)}


def advance(
    connection: Connection,
    site_id: uuid.UUID,
    snapshots: Sequence[str],
    position: str,
    *,
    flushed: bool = True,
) -> set[str]:
    """Note a position up to which the log keeps no changes for these snapshots.

    For a first load, the caller commits it before it reads the first row; later
    the position may lag behind. Writes `registered_snapshot`.

    Parameters:
        flushed: whether the commit waits for the disk. If the site shows the position
            already, nothing is lost with it: the log keeps changes for longer.

    Returns:
        Those of them that are registered.
    """
    given = {"its_id": site_id, "its_snapshots": [*snapshots], "its_position": position}
    told = (_ADVANCED if flushed else _ADVANCED_UNFLUSHED).run(connection, **given)
    return {row.snapshot for row in told}


def heard(connection: Connection, site_id: uuid.UUID, snapshots: Sequence[str]) -> None:
    """Note that a site is here, though it has no new position for these snapshots."""
    connection.execute(
        sa.update(registered_snapshot)
        .where(_at.site_id == site_id, _at.snapshot.in_(snapshots))
        .values(refreshed_at=func.now())
    )


def release(
    connection: Connection, site_id: uuid.UUID, snapshots: Sequence[str]
) -> None:
    """Keep nothing for these snapshots any more; they stay registered.

    Their next refresh has the logs keep changes for them again (`take_back`). Writes
    `registered_snapshot`.
    """
    connection.execute(
        sa.update(registered_snapshot)
        .where(_at.site_id == site_id, _at.snapshot.in_(snapshots))
        .values(position=None)
    )


def take_back(
    connection: Connection, site_id: uuid.UUID, shown: Mapping[str, str]
) -> dict[str, set[str]]:
    """Have the logs keep changes again for snapshots that were released.

    Whether the logs still hold all changes since then is another question, to which
    only their horizon knows the answer. Writes `registered_snapshot`.

    Parameters:
        shown: snapshots that have rows, each with the position that it shows.

    Returns:
        Those that were released, each with the other tables that its condition asks.
    """
    found: dict[str, set[str]] = {}
    for name, position in shown.items():
        again = (
            sa.update(registered_snapshot)
            .where(_at.site_id == site_id, _at.snapshot == name, _at.position.is_(None))
            # One that was filled from an image, and never by a refresh, was not.
            .where(_at.refreshed_at.is_not(None))
            .values(
                position=sa.cast(sa.literal(position), PgSnapshot()),
                refreshed_at=func.now(),
            )
            .returning(_at.parents)
        )
        for asked in connection.scalars(again):
            found[name] = {*asked}
    return found


def seen_by_all(site_id: uuid.UUID, xid: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether the positions of all snapshots of a site have seen a transaction."""
    seen = func.pg_visible_in_snapshot(xid, _at.position)
    return ~sa.exists().where(_at.site_id == site_id, func.coalesce(~seen, sa.true()))


def unregister(
    connection: Connection, site_id: uuid.UUID, snapshots: Sequence[str]
) -> None:
    """Forget snapshots: the log keeps nothing for them any more.

    Writes `registered_snapshot`.
    """
    connection.execute(
        sa.delete(registered_snapshot).where(
            _at.site_id == site_id, _at.snapshot.in_(snapshots)
        )
    )


def registered(
    connection: Connection, site_id: uuid.UUID, snapshots: Sequence[str]
) -> dict[str, set[str]]:
    """Which of these snapshots the master knows and keeps its logs for.

    Returns:
        Their names, each with the other tables that its condition asks.
    """
    given = {"its_id": site_id, "its_snapshots": [*snapshots]}
    return {name: {*asked} for name, asked in _KNOWN.run(connection, **given)}


def known(
    found: Sequence[Mapping[str, Any]] | None, shown: Mapping[str, str]
) -> dict[str, set[str]]:
    """The same from the column `REGISTERED` of a row.

    Parameters:
        shown: of snapshots that an image may have filled since they were registered,
            what they show: only with that position, the logs are kept for these rows.
    """
    return {
        row["snapshot"]: {*row["parents"]}
        for row in found or ()
        if shown.get(row["snapshot"], row["position"]) == row["position"]
    }


def silent(since: timedelta) -> ColumnElement[bool]:
    """Whether the master has not heard of a snapshot for this long.

    It is one of `its_snapshots` of the site `its_id`.
    """
    return sa.exists().where(
        *_ITS, sa.or_(_at.refreshed_at.is_(None), _at.refreshed_at < func.now() - since)
    )


def forgotten() -> ColumnElement[bool]:
    """Whether one of `its_snapshots` of the site `its_id` is registered no more."""
    there = select(func.count()).where(*_ITS).scalar_subquery()
    return there < func.cardinality(sa.bindparam("its_snapshots", type_=ARRAY(Text)))


def shows_other(position: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a snapshot is registered with another position than the one it shows.

    So it is if its last refresh was killed before it told the master. The snapshot is
    one of `its_snapshots` of the site `its_id`.
    """
    return sa.exists().where(
        *_ITS, sa.cast(_at.position, Text).is_distinct_from(position)
    )


_ITS = (
    _at.site_id == sa.bindparam("its_id", type_=_at.site_id.type),
    _at.snapshot == sa.any_(sa.bindparam("its_snapshots", type_=ARRAY(Text))),
)
_ADVANCING = (
    sa.update(registered_snapshot)
    .where(*_ITS)
    .values(
        position=sa.cast(sa.bindparam("its_position", type_=Text), PgSnapshot()),
        refreshed_at=func.now(),
    )
)
_ADVANCED = Prepared(_ADVANCING.returning(_at.snapshot))
_ADVANCED_UNFLUSHED = Prepared(_ADVANCING.returning(_at.snapshot, settings.UNFLUSHED))
_REGISTERED = select(_at.snapshot, _at.parents).where(*_ITS, _at.position.is_not(None))
_KNOWN = Prepared(_REGISTERED)

#: The same of the site `its_id` and `its_snapshots`, for statements that read more.
REGISTERED = as_json(
    _REGISTERED.add_columns(sa.cast(_at.position, Text).label("position")), "registered"
)
