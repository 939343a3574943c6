"""Storing a log in a fixed ring of partitions, so that TRUNCATE removes old rows.

Row-by-row deletes would leave bloat behind and compete with the writers; adding a new
partition would lock the parent while they write. A fixed ring needs neither
(docs/explanation/positions.md).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from psycopg import errors, sql
from sqlalchemy import (
    ARRAY,
    BigInteger,
    CompoundSelect,
    Connection,
    Insert,
    Text,
    func,
    select,
)

from sites.catalog import SCHEMA
from sites.names import comma, identifiers, numbered
from sites.sessions.exchange import raw
from sites.tables.table import Column, Table
from sites.transfer.types import Xid8
from sites.transfer.values import unsized

#: The size of the ring, and the bits of a transaction id that do not count: the id
#: gives the partition, so that writers agree on it without a query.
SLOTS = 8
SLOT_SHIFT = 15

#: The partition beside the ring, for deletes whose own partition was emptied.
KEPT = SLOTS

#: How long writers may have to wait behind a purge that waits for a lock.
LOCK_TIMEOUT_MS = 50


def create(
    connection: Connection, log: str, table: Table, identity: tuple[str, ...]
) -> None:
    """Create a snapshot log for a table: kind of change, transaction, keys, time.

    An index finds deletes by their key.
    """
    keys = sql.SQL(", ").join(
        sql.SQL("{} {}").format(
            sql.Identifier(name),
            sql.SQL(key_type(table.column(column))),
        )
        for name, column in zip(numbered("k", identity), identity, strict=True)
    )
    raw(connection).execute(
        sql.SQL(
            'CREATE TABLE {} (kind "char" NOT NULL,'
            " xid xid8 NOT NULL, slot smallint NOT NULL, {},"
            " at timestamptz DEFAULT now()) PARTITION BY LIST (slot)"
        ).format(sql.Identifier(SCHEMA, log), keys)
    )
    for slot in (*range(SLOTS), KEPT):
        raw(connection).execute(
            sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES IN ({})").format(
                _partition(log, slot), sql.Identifier(SCHEMA, log), sql.Literal(slot)
            )
        )
    raw(connection).execute(
        sql.SQL("CREATE INDEX ON {} (xid)").format(sql.Identifier(SCHEMA, log))
    )
    raw(connection).execute(
        sql.SQL("CREATE INDEX {} ON {} ({}) WHERE kind IN ('D', 'T')").format(
            sql.Identifier(_part(log, "d")),
            sql.Identifier(SCHEMA, log),
            comma(identifiers(numbered("k", identity))),
        )
    )


def noted(log: str, keys: sa.Select[Any] | CompoundSelect[Any]) -> Insert:
    """The statement that notes keys in a log, as if these rows were updated."""
    count = len(keys.selected_columns)
    xact = func.pg_current_xact_id(type_=Xid8())
    number = sa.cast(sa.cast(xact, sa.Text), BigInteger)
    table = sa.table(
        log,
        *(sa.column(c) for c in ("kind", "xid", "slot", *numbered("k", range(count)))),
        schema=SCHEMA,
    )
    source = keys.subquery()
    values = select(
        sa.literal_column("'U'"),
        xact,
        func.mod(number.bitwise_rshift(sa.literal_column(str(SLOT_SHIFT))), SLOTS),
        *source.columns,
    )
    return sa.insert(table).from_select(list(table.columns), values)


def drop(connection: Connection, log: str) -> None:
    """Drop a snapshot log with all its partitions."""
    raw(connection).execute(
        sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, log))
    )


def full_slots(connection: Connection, log: str, horizon: str) -> list[int]:
    """Slots that hold rows, all of them of transactions before the horizon."""
    return [
        slot
        for slot in range(SLOTS)
        if _look(connection, log, slot, horizon) == "behind"
    ]


def needed_bytes(connection: Connection, log: str, horizon: str) -> int:
    """The size of the partitions with rows of transactions from the horizon on."""
    needed = [
        _part(log, str(slot))
        for slot in range(SLOTS)
        if _look(connection, log, slot, horizon) == "needed"
    ]
    names = sa.literal(needed, ARRAY(Text))
    part = func.format("%I.%I", SCHEMA, func.unnest(names)).label("part")
    each = select(func.pg_total_relation_size(func.to_regclass(part)).label("bytes"))
    size = func.sum(each.subquery().c.bytes)
    return int(connection.scalar(select(func.coalesce(size, 0))) or 0)


def empty_slot(connection: Connection, log: str, slot: int, horizon: str) -> bool:
    """Empty one partition, unless a transaction writes to it or has just written.

    The partition is locked first and looked at afterwards, so that no row written in
    between is lost. Waits at most `LOCK_TIMEOUT_MS`.

    Returns:
        Whether it was emptied. The caller commits.
    """
    driver = raw(connection)
    partition = _partition(log, slot)
    try:
        with driver.transaction():
            driver.execute(
                sql.SQL("SET LOCAL lock_timeout = {}").format(
                    sql.Literal(LOCK_TIMEOUT_MS)
                )
            )
            driver.execute(
                sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(partition)
            )
    except errors.LockNotAvailable:
        return False
    if _look(connection, log, slot, horizon) != "behind":
        return False
    driver.execute(sql.SQL("TRUNCATE TABLE ONLY {}").format(partition))
    return True


def keep_deletes(
    connection: Connection, log: str, slot: int, horizon: str, keys: int
) -> None:
    """Copy the deletes of a partition that is about to be emptied.

    No row is added for transactions before the horizon, so no lock is needed.

    Parameters:
        keys: how many columns a key has.
    """
    raw(connection).execute(
        sql.SQL(
            "INSERT INTO {kept} (kind, xid, slot, at, {keys})"
            " SELECT kind, xid, {slot}, at, {keys} FROM {emptied}"
            " WHERE kind IN ('D', 'T') AND xid < {horizon}::text::xid8"
            " AND at IS NOT NULL"
        ).format(
            kept=_partition(log, KEPT),
            slot=sql.Literal(KEPT),
            keys=comma(identifiers(numbered("k", range(keys)))),
            emptied=_partition(log, slot),
            horizon=sql.Literal(horizon),
        )
    )


def forget_deletes(connection: Connection, log: str, older_than: timedelta) -> None:
    """Remove kept deletes that are older than this."""
    raw(connection).execute(
        sql.SQL("DELETE FROM {} WHERE at < clock_timestamp() - %s::interval").format(
            _partition(log, KEPT)
        ),
        (older_than,),
    )


def _look(connection: Connection, log: str, slot: int, horizon: str) -> str:
    row = (
        raw(connection)
        .execute(
            sql.SQL("SELECT max(xid) < %s::text::xid8 FROM {}").format(
                _partition(log, slot)
            ),
            (horizon,),
        )
        .fetchone()
    )
    verdict = row[0] if row else None
    return "empty" if verdict is None else "behind" if verdict else "needed"


def _partition(log: str, slot: int) -> sql.Identifier:
    return sql.Identifier(SCHEMA, _part(log, str(slot)))


def _part(log: str, suffix: str) -> str:
    base = log.encode()[:60].decode(errors="ignore")
    return f"{base}~{suffix}"


def fitting(column: Column) -> tuple[str, ...]:
    """The types, without length, whose values fit into the recorded key."""
    narrow = {kind for kind, wide in _WIDE.items() if wide == key_type(column)}
    return tuple(sorted({column.plain, key_type(column), *narrow}))


def key_type(column: Column) -> str:
    """The type for a recorded key, which also fits if the column is widened later.

    Otherwise the user's statement would fail with the first value that the old type
    cannot hold; or the key would be rounded, and the change of its row be lost.
    """
    base = _FIELDS.sub("interval", unsized(column.recorded))
    return _WIDE.get(base, base)


def holds(recorded: Column, column: Column) -> bool:
    """Whether a recorded key has the type of its column, perhaps with its length."""
    return recorded.type in (key_type(column), column.recorded)


#: An interval that is cut to some of its fields.
_FIELDS = re.compile(r"^interval [a-z ]+")

_WIDE = {
    "smallint": "bigint",
    "integer": "bigint",
    "numeric": "numeric",
    "character varying": "text",
    "character": "bpchar",
    "bit": "bit varying",
}
