"""Checking the conditions of snapshots, and printing them in one form.

The database itself decides. An expression that it accepts as the predicate of an index
is immutable, and depends on one row of one table; if it refuses one, it gives the
reason. A condition with subqueries (`sites.conditions.subqueries`) is divided at these,
and each part is judged for the table that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg
from psycopg import sql
from sqlalchemy import Boolean, ColumnElement, Connection, literal_column, true

from sites.conditions import subqueries
from sites.conditions.subqueries import Parts, Subquery, Unreadable
from sites.errors import SnaptideError
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw

_Driver = psycopg.Connection[tuple[Any, ...]]


class _NotOfTheRow(ValueError):
    """A part of a condition whose value may change while its row does not."""


class BadCondition(SnaptideError):
    """A snapshot cannot have this condition."""

    code: ClassVar[str] = "SNP-015"
    hint: ClassVar[str] = (
        "Write an expression over the columns of the master table. Other tables may "
        "stand in EXISTS (SELECT FROM parent WHERE parent.key = column AND ...)."
    )


class ConditionNotImmutable(BadCondition):
    """The condition depends on more than the row."""

    code: ClassVar[str] = "SNP-016"
    hint: ClassVar[str] = (
        "Leave out now(), current_user, random() and casts that depend on the time "
        "zone: their result changes while the row stays the same, so rows would "
        "enter and leave the snapshot unnoticed."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition as the database prints it, all names qualified."""

    text: str
    #: the columns that it looks at, by table
    columns: Mapping[QualifiedName, tuple[str, ...]]
    parts: Parts


def canonical(
    connection: Connection, table: QualifiedName, condition: str
) -> Condition:
    """Let the database check a condition, and print it without ambiguous names.

    The work is done in a savepoint that is rolled back. Names in the condition
    are looked up as an ordinary user's would be (`"$user", public`).

    Parameters:
        table: the table that the condition is for.
        condition: the text that a user would write after WHERE.

    Raises:
        ConditionNotImmutable: the condition is volatile or stable.
        BadCondition: it is no boolean expression over the columns of the table, or a
            subquery has a form that no refresh could keep up to date.
    """
    driver = raw(connection)
    try:
        with driver.transaction(force_rollback=True):
            return _judge(driver, table, condition)
    except psycopg.Error as error:
        raise _refusal(error, condition) from None
    except _NotOfTheRow as error:
        raise ConditionNotImmutable(
            f"The condition {condition!r} depends on more than the row, because of "
            f"{error}.",
            condition=condition,
        ) from None
    except Unreadable as error:
        raise BadCondition(
            f"The condition {condition!r} cannot be kept up to date: {error}.",
            condition=condition,
        ) from None


def _judge(driver: _Driver, table: QualifiedName, condition: str) -> Condition:
    driver.execute('SET LOCAL search_path = "$user", public')
    driver.execute("SET LOCAL lock_timeout = '10s'")
    _refuse_unbalanced(driver, table, condition)
    # What EXISTS selects is left out of the first text, so the second has no columns
    # of it.
    once, _ = _printed(driver, table, condition)
    text, columns = _printed(driver, table, once)
    subqueries.refuse_whole_row(text, table)
    parts = subqueries.parts(text, table)
    driver.execute("SET LOCAL search_path = pg_catalog")
    _try_as_predicates(driver, table, table.name, parts)
    return Condition(text=text, columns=columns, parts=parts)


def _refuse_unbalanced(driver: _Driver, table: QualifiedName, condition: str) -> None:
    """Refuse a text that closes a parenthesis that it did not open.

    It does not parse both in parentheses and without them. The line break ends a
    comment at the end of the condition.

    Raises:
        BadCondition: the text ends too early, and PostgreSQL would name our next word.
    """
    before, after = "SELECT CASE WHEN ", "\nTHEN true END FROM {}"
    bare = sql.SQL(before + "{}" + after).format(sql.SQL(condition), identifier(table))
    where = sql.SQL("SELECT ({}\n) FROM {}").format(
        sql.SQL(condition), identifier(table)
    )
    try:
        _parse(driver, bare)
    except psycopg.errors.SyntaxError as error:
        said = error.diag.message_primary or ""
        place = int(error.diag.statement_position or 0)
        if said.startswith("unterminated"):
            reason = said.partition(" at or near")[0]
        elif place > len(before) + len(condition):
            reason = "it ends too early, as with an open parenthesis"
        else:
            raise
        raise BadCondition(
            f"PostgreSQL refuses the condition {condition!r}: {reason}",
            condition=condition,
        ) from None
    _parse(driver, where)


def _printed(
    driver: _Driver, table: QualifiedName, condition: str
) -> tuple[str, dict[QualifiedName, tuple[str, ...]]]:
    """A condition as a view of the table has it, and the columns that it looks at."""
    with driver.transaction(force_rollback=True):
        _one_statement(
            driver,
            sql.SQL("CREATE TEMP VIEW {} AS SELECT FROM {} WHERE ({}\n)").format(
                sql.Identifier(table.name), identifier(table), sql.SQL(condition)
            ),
        )
        driver.execute("SET LOCAL search_path = pg_catalog")
        found = driver.execute(_DEFINITION, [table.name]).fetchone()
        looked_at = driver.execute(_LOOKED_AT, [table.name]).fetchall()
    _, text = re.split(r"\n  WHERE\s", str(found[0] if found else ""), maxsplit=1)
    columns = {
        QualifiedName(schema, name): tuple(names) for schema, name, names in looked_at
    }
    return subqueries.one_line(text.removesuffix(";")), columns


_DEFINITION = """
SELECT pg_get_viewdef(c.oid) FROM pg_class c
WHERE c.relnamespace = pg_my_temp_schema() AND c.relname = %s
"""
_LOOKED_AT = """
SELECT n.nspname, t.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid
JOIN pg_class c ON c.oid = r.ev_class
JOIN pg_class t ON t.oid = d.refobjid
JOIN pg_namespace n ON n.oid = t.relnamespace
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND d.refobjsubid > 0
  AND c.relnamespace = pg_my_temp_schema() AND c.relname = %s
GROUP BY n.nspname, t.relname
"""


_PAIR = """
CREATE TEMP TABLE {pair} AS SELECT a.{column} AS c1, b.{key} AS c2
FROM {table} a, {parent} b WITH NO DATA
"""


#: varchar has no operator of its own: PostgreSQL prints a cast that changes nothing.
_NOT_TEXT = """
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = pg_my_temp_schema() AND c.relname = %s AND a.attnum > 0
  AND a.atttypid NOT IN ('text'::regtype, 'varchar'::regtype)
"""


def _try_as_predicates(
    driver: _Driver, table: QualifiedName, alias: str, parts: Parts | Subquery
) -> None:
    """Make an index for each part, which fails if it is about more than its row.

    Parameters:
        alias: the name of the table within the condition.
    """
    with driver.transaction(force_rollback=True):
        driver.execute(
            sql.SQL("CREATE TEMP TABLE {} (LIKE {})").format(
                sql.Identifier(alias), identifier(table)
            )
        )
        for leaf in parts.leaves:
            try:
                _index(driver, alias, sql.SQL(leaf))
            except psycopg.errors.InvalidObjectDefinition as error:
                reason = error.diag.message_primary
                raise _NotOfTheRow(f"{leaf} ({reason})") from None
    for one in parts.subqueries:
        with driver.transaction(force_rollback=True):
            for number, (column, key, as_text) in enumerate(
                zip(one.columns, one.key, one.as_text, strict=True)
            ):
                pair = sql.SQL(_PAIR).format(
                    pair=sql.Identifier(f"pair_{number}"),
                    column=sql.Identifier(column),
                    key=sql.Identifier(key),
                    table=identifier(table),
                    parent=identifier(one.table),
                )
                driver.execute(pair)
                _index(driver, f"pair_{number}", sql.SQL("c1 = c2"))
                if as_text and driver.execute(_NOT_TEXT, [f"pair_{number}"]).fetchone():
                    raise Unreadable(
                        f"{column} and {key} must be compared without a cast"
                    )
        _try_as_predicates(driver, one.table, one.alias, one)


def _index(driver: _Driver, table: str, predicate: sql.Composable) -> None:
    driver.execute(
        sql.SQL("CREATE INDEX ON {} ((1)) WHERE ({})").format(
            sql.Identifier("pg_temp", table), predicate
        )
    )


def _parse(driver: _Driver, statement: sql.Composed) -> None:
    """Let the server parse a statement without running it; only one is allowed."""
    _check(driver.pgconn.prepare(b"", statement.as_bytes(driver)))


def _one_statement(driver: _Driver, statement: sql.Composed) -> None:
    """Run a statement by the extended protocol, which takes exactly one."""
    _check(driver.pgconn.exec_params(statement.as_bytes(driver), None))


def _check(result: psycopg.pq.abc.PGresult) -> None:
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(result, encoding="utf-8")


def _refusal(error: psycopg.Error, condition: str) -> BadCondition:
    reason = error.diag.message_primary or str(error)
    return BadCondition(
        f"PostgreSQL refuses the condition {condition!r}: {reason}", condition=condition
    )


def clause(condition: str | None) -> ColumnElement[bool]:
    """A stored condition, for a SELECT from its table alone."""
    return true() if condition is None else literal_column(f"({condition})", Boolean)
