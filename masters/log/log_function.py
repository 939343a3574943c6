"""Installing the trigger function that records the changes of a master table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql
from sqlalchemy import Connection

from masters.log import partition
from masters.log.ring import SLOT_SHIFT, SLOTS
from masters.log.sql import load
from sites.capture import triggers
from sites.capture.same_key import same_key
from sites.catalog import SCHEMA
from sites.names import QualifiedName, comma, identifiers, numbered
from sites.sessions.exchange import raw
from sites.tables import locks
from sites.tables.table import Table
from sites.transfer.values import unsized

#: The statements that a log records.
EVENTS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")

#: What the names of logs, and of their functions, begin with.
PREFIX = "mlog$_"

_LOGS = "snaptide.logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCapture:
    """What a snapshot log records of a master table: keys, and some values."""

    table: Table
    #: name of the log table in the schema snaptide, and of its trigger function
    log: str
    #: columns that identify a row; recorded as k1, k2, ...
    identity: tuple[str, ...]
    #: for each of them, the types (without length) whose values the log can hold
    fitting: tuple[tuple[str, ...], ...]
    #: its partition columns (`masters.log.partition`)
    partition: tuple[str, ...] = ()


def wait_turn(connection: Connection, *tables: QualifiedName) -> None:
    """Wait for transactions that make, alter or drop logs, and keep others out.

    What a transaction reads before of a log may be older than what they have written:
    its function would record columns that the log does not have.

    Parameters:
        tables: whose logs these are; those of other tables are not waited for, as a
            rewrite of a large table takes long.
    """
    locks.wait_turn(connection, _LOGS, shared=True)
    for table in sorted(tables):
        locks.wait_turn(connection, _LOGS, str(table))


def wait_turn_of_all(connection: Connection) -> None:
    """The same for the logs of all tables."""
    locks.wait_turn(connection, _LOGS)


def keep(connection: Connection, tables: Collection[QualifiedName]) -> None:
    """Wait for those who alter or drop the logs of tables, and keep these out.

    Others may keep the logs at the same time.
    """
    for table in sorted({*tables}):
        locks.wait_turn(connection, _LOGS, str(table), shared=True)


def install(connection: Connection, capture: LogCapture) -> None:
    """Record changes of a master table from now on; wait for open writers."""
    replace(connection, capture)
    triggers.attach(
        connection, capture.table, capture.log, events=EVENTS, subscribed=True
    )


def replace(connection: Connection, capture: LogCapture) -> None:
    """Create or replace the trigger function of a log, without a table lock."""
    parts = _parts(capture)
    driver = raw(connection)
    if capture.partition:
        driver.execute(_knowing(capture, parts["function"]))
    driver.execute(
        sql.SQL(load("log_function")).format(**parts, **_values(capture, parts))
    )


def remove(connection: Connection, log: str) -> None:
    """Drop the trigger function of a log, its triggers, and the functions it calls."""
    triggers.remove(connection, log)
    drop = sql.SQL("DROP FUNCTION IF EXISTS {}(regclass, text[])")
    raw(connection).execute(drop.format(sql.Identifier(SCHEMA, log)))


def knows(table: Table, log: str, columns: Sequence[str]) -> sql.Composed:
    """Whether a table has the partition columns of its log as they were declared."""
    # A subquery is no constant: no plan is to keep the answer of a moment.
    return sql.SQL("{}((SELECT {}::regclass), {}::text[])").format(
        sql.Identifier(SCHEMA, log),
        sql.Literal(str(table.oid)),
        sql.Literal(list(columns)),
    )


def known(connection: Connection, table: Table, log: str) -> tuple[str, ...]:
    """The partition columns of a log; none if the table does not have them any more."""
    columns = partition.of_log(connection, log)
    if not columns:
        return ()
    query = sql.SQL("SELECT {}").format(knows(table, log, columns))
    row = raw(connection).execute(query).fetchone()
    return columns if row and row[0] else ()


def _parts(capture: LogCapture) -> dict[str, sql.Composable]:
    """What both forms of the function are made of."""
    keys = identifiers(capture.identity)
    fitting = [
        sql.SQL("({}, {})").format(sql.Literal(name), sql.Literal(kind))
        for name, kinds in zip(capture.identity, capture.fitting, strict=True)
        for kind in kinds
    ]
    return {
        "function": sql.Identifier(SCHEMA, capture.log),
        "log": sql.Identifier(SCHEMA, capture.log),
        "table": sql.Literal(str(capture.table.oid)),
        "slots": sql.Literal(SLOTS),
        "slot_shift": sql.Literal(SLOT_SHIFT),
        "log_keys": comma(identifiers(numbered("k", capture.identity))),
        "keys": comma(sql.SQL("r.{}").format(key) for key in keys),
        "key": keys[0],
        "key_count": sql.Literal(len(keys)),
        "key_names": sql.Literal(list(capture.identity)),
        "key_types": comma(fitting),
        "either_keys": comma(_either(key) for key in keys),
        "row_old_keys": comma(sql.SQL("OLD.{}").format(key) for key in keys),
        "row_new_keys": comma(sql.SQL("NEW.{}").format(key) for key in keys),
        "same_key": same_key(
            capture.table,
            capture.identity,
            {name: sql.Identifier(name) for name in capture.identity},
        ),
    }


def _either(key: sql.Identifier) -> sql.Composed:
    return sql.SQL("COALESCE(n.{0}, o.{0})").format(key)


def _values(
    capture: LogCapture, parts: Mapping[str, sql.Composable]
) -> dict[str, sql.Composable]:
    """What the function has besides if there are partition columns."""
    if not capture.partition:
        return dict.fromkeys(("known", "known_here", "known_there", "with_values"), _NO)
    names, asked = _named(capture), sql.SQL("{function}({logged}, {names})")
    known = sql.SQL("\n        snaptide$known := {};")
    here = sql.SQL("{}::regclass").format(parts["table"])
    there = sql.SQL("TG_RELID")
    return {
        "known": sql.SQL("\n    snaptide$known boolean;"),
        "known_here": known.format(
            asked.format(function=parts["function"], logged=here, names=names)
        ),
        "known_there": known.format(
            asked.format(function=parts["function"], logged=there, names=names)
        ),
        "with_values": sql.SQL(load("partition_values").rstrip("\n")).format(
            **parts, **_hashes(capture)
        ),
    }


def _hashes(capture: LogCapture) -> dict[str, sql.Composable]:
    """The values of partition columns, of the rows that a statement or trigger has."""
    key = sql.Identifier(capture.identity[0])
    new = identifiers(numbered("n", capture.partition))
    old = identifiers(numbered("o", capture.partition))
    news, olds = ([sql.SQL("c.{}").format(one) for one in side] for side in (new, old))
    # A row that came or went has one image, which stands for the other one, too.
    either = "(CASE WHEN {0}.{2} IS NULL THEN {1}.{3} ELSE {0}.{3} END)"

    def of(pattern: str, *given: sql.Composable) -> sql.Composed:
        return comma(
            partition.hashed(
                unsized(capture.table.column(name).recorded),
                sql.SQL(pattern).format(*given, sql.Identifier(name)),
            )
            for name in capture.partition
        )

    one, other = sql.SQL("n"), sql.SQL("o")
    return {
        "log_values": comma(identifiers(partition.places(capture.partition))),
        "row_old_values": of("OLD.{}"),
        "row_new_values": of("NEW.{}"),
        "values": of("r.{}"),
        "new_values": of(either, one, other, key),
        "old_values": of(either, other, one, key),
        "new_names": comma(new),
        "old_names": comma(old),
        "paired_keys": comma(
            sql.SQL("c.{}").format(one)
            for one in identifiers(numbered("k", capture.identity))
        ),
        "news": comma(news),
        "olds": comma(olds),
        "either_values": comma(
            sql.SQL("CASE WHEN i.old THEN {} ELSE {} END").format(o, n)
            for n, o in zip(news, olds, strict=True)
        ),
    }


def _knowing(capture: LogCapture, function: sql.Composable) -> sql.Composed:
    """The function that says whether a table still has the partition columns."""
    columns = [capture.table.column(name) for name in capture.partition]
    kinds = [
        sql.SQL("({}, {}, {}::oid)").format(
            *map(sql.Literal, (column.name, column.plain, column.state.split(" ")[2]))
        )
        for column in columns
    ]
    numbers = [
        sql.SQL("({}, {})").format(sql.Literal(column.name), sql.Literal(column.number))
        for column in columns
    ]
    return sql.SQL(load("partition_columns")).format(
        function=function,
        table=sql.Literal(str(capture.table.oid)),
        kinds=comma(kinds),
        numbers=comma(numbers),
    )


def _named(capture: LogCapture) -> sql.Composed:
    return sql.SQL("{}::text[]").format(sql.Literal(list(capture.partition)))


_NO = sql.SQL("")
