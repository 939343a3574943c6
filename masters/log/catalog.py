"""Which tables of a master have a snapshot log, and how far each one reaches back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Row,
    Text,
    func,
    literal,
    select,
)

from masters.catalog import snapshot_log
from masters.errors import NoSnapshotLog
from masters.log import log_function, partition, ring
from sites import QualifiedName
from sites.capture import position, triggers
from sites.catalog import SCHEMA
from sites.names import numbered
from sites.sessions.prepared import Prepared, as_json
from sites.transfer.types import NativeType, PgSnapshot, Xid8


def find_log(connection: Connection, table: QualifiedName) -> Row[Any] | None:
    """The catalog row of a table's snapshot log, or None."""
    return connection.execute(
        select(snapshot_log).where(
            snapshot_log.c.table_schema == table.schema,
            snapshot_log.c.table_name == table.name,
        )
    ).one_or_none()


def find_logs(connection: Connection, tables: Sequence[QualifiedName]) -> list[str]:
    """The names of the snapshot logs that these tables have."""
    found = _NAMES.run(connection, **asked(tables))
    return [row.log_table for row in found]


def logged_tables(connection: Connection) -> list[QualifiedName]:
    """All tables with a log that are there, by name."""
    name = func.format("%I.%I", _log.table_schema, _log.table_name)
    found = select(_log.table_schema, _log.table_name).where(
        func.to_regclass(name).is_not(None)
    )
    ordered = found.order_by(_log.table_schema, _log.table_name)
    return [QualifiedName(*row) for row in connection.execute(ordered)]


def asked(tables: Sequence[QualifiedName]) -> dict[str, list[str]]:
    """The parameters of a statement with `NAMES`."""
    return {
        "its_schemas": [table.schema for table in tables],
        "its_tables": [table.name for table in tables],
    }


def names(found: Sequence[Mapping[str, str]] | None) -> dict[QualifiedName, str]:
    """The logs in the column `NAMES` of a row, by table."""
    return {
        QualifiedName(row["table_schema"], row["table_name"]): row["log_table"]
        for row in found or ()
    }


def rows_of(
    log_table: str, keys: Sequence[NativeType] = (), hashes: Iterable[str] = ()
) -> sa.TableClause:
    """A snapshot log, for use in statements.

    Parameters:
        keys: the types in which its keys (k1, k2, ...) are looked up.
        hashes: what its partition columns are called there, as far as they are used.
    """
    named = zip(numbered("k", keys), keys, strict=True)
    return sa.table(
        log_table,
        sa.column("kind", sa.Text),
        sa.column("xid", Xid8()),
        sa.column("slot", sa.SmallInteger),
        *(sa.column(name, kind) for name, kind in named),
        *(sa.column(name, sa.BigInteger) for name in hashes),
        schema=SCHEMA,
    )


def slots_since(since: str, now: str) -> tuple[int, ...]:
    """The partitions that can hold rows of transactions which a position has not seen.

    PostgreSQL plans a statement for these alone if it names them as constants.

    Parameters:
        now: the position of the moment that is read; what it does not show, no row has.
    """
    first, last = (
        position.end(since) >> ring.SLOT_SHIFT,
        position.end(now) >> ring.SLOT_SHIFT,
    )
    # So many in a row are all of them.
    stretch = range(first, min(last, first + ring.SLOTS) + 1)
    running = (one >> ring.SLOT_SHIFT for one in position.running(since))
    return (*sorted({one % ring.SLOTS for one in (*stretch, *running)}), ring.KEPT)


def news_since(
    connection: Connection, logs: Iterable[Row[Any]], since: str
) -> dict[str, bool]:
    """The logs that have rows which a position has not seen.

    By log, whether a row says that the master table was truncated: no log could hold
    all its keys.

    Parameters:
        logs: as `logs_since` returns them; those that lack changes are not asked.
    """
    names = tuple(log.log_table for log in logs if log.whole and log.reaches)
    rows = _news(names).run(connection, its_position=since) if names else ()
    return {names[number]: truncated for number, truncated in rows}


@lru_cache(maxsize=128)
def _news(log_tables: tuple[str, ...]) -> Prepared:
    """Asks the same, by number; takes `its_position`.

    Building it takes longer than running it.
    """
    since = sa.bindparam("its_position", type_=Text)
    asked = []
    for number, name in enumerate(log_tables):
        log = rows_of(name, [NativeType("text")])
        # Such a mark has no key: the index over the keys of deletes finds it at once.
        of_all = log.c.k1.is_(None), log.c.kind == sa.literal_column("'T'")
        mark = select(log.c.kind).where(position.since(log.c.xid, since), *of_all)
        came = position.any_since(log.c.xid, sa.cast(since, PgSnapshot()))
        asked.append(select(literal(number), mark.exists()).where(came))
    return Prepared(sa.union_all(*asked))


def get_log(connection: Connection, table: QualifiedName) -> Row[Any]:
    """The catalog row of a table's snapshot log.

    Raises:
        NoSnapshotLog: the table has none.
    """
    row = find_log(connection, table)
    if row is None:
        raise NoSnapshotLog(f"Table {table} has no snapshot log.", table=str(table))
    return row


def logs_since(
    connection: Connection, tables: Sequence[QualifiedName], since: str | None
) -> dict[QualifiedName, Row[Any]]:
    """The catalog rows of the snapshot logs that these tables have.

    Each has three columns more: `whole`, whether the table and all its parts have the
    triggers, and these are on; and `reaches`, whether the log was there, and not purged
    yet, at a position. If both, it holds every change that the position has not seen.
    The third, `partition_columns`, names the columns whose values it records.
    """
    rows = _SINCE.run(connection, **asked(tables), its_position=since)
    return {QualifiedName(row.table_schema, row.table_name): row for row in rows}


def any_too_young(
    logs: Mapping[QualifiedName, str], since: ColumnElement[str]
) -> ColumnElement[bool]:
    """Whether one of these logs is gone, or lacks changes that a position has not seen.

    Parameters:
        logs: by table.
    """
    wanted = (
        sa.and_(
            _log.table_schema == table.schema,
            _log.table_name == table.name,
            _log.log_table == log,
        )
        for table, log in logs.items()
    )
    any_of_them = sa.or_(sa.false(), *wanted)
    whole = select(func.count()).where(any_of_them, _reaches(since), _whole())
    return whole.scalar_subquery() != len(logs)


def _reaches(since: ColumnElement[str]) -> ColumnElement[bool]:
    old = sa.cast(since, PgSnapshot())
    return sa.and_(
        position.visible(_log.created_xid, old),
        func.pg_snapshot_xmin(old) >= _log.horizon,
    )


def _whole() -> ColumnElement[bool]:
    return triggers.of_row(
        _log.table_schema,
        _log.table_name,
        _log.log_table,
        prefix=log_function.PREFIX,
        events=log_function.EVENTS,
        subscribed=True,
    )


_log = snapshot_log.c
_ASKED = sa.tuple_(_log.table_schema, _log.table_name).in_(
    select(
        *(
            func.unnest(sa.bindparam(name, type_=ARRAY(Text)))
            for name in ("its_schemas", "its_tables")
        )
    )
)
_NAMED = select(_log.table_schema, _log.table_name, _log.log_table).where(_ASKED)
_NAMES = Prepared(_NAMED)

#: The logs of the tables that are `asked` for, for statements that read more.
NAMES = as_json(_NAMED, "logs")
_SINCE = Prepared(
    select(
        snapshot_log,
        _whole().label("whole"),
        _reaches(sa.bindparam("its_position", type_=Text)).label("reaches"),
        partition.of_row(_log.log_table).label("partition_columns"),
    ).where(_ASKED)
)
