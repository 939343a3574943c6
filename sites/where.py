"""Checking the conditions of snapshots, and printing them in one form.

The database itself decides. A condition that it accepts as the predicate of an index is
immutable, an expression, and depends on one row of one table; if it refuses one, it
gives the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import psycopg
from psycopg import sql
from sqlalchemy import Boolean, ColumnElement, Connection, literal_column, true

from sites.errors import SnaptideError
from sites.names import QualifiedName, identifier
from sites.transport import raw

_NOT_IMMUTABLE = "42P17"


class BadCondition(SnaptideError):
    """A snapshot cannot have this condition."""

    code: ClassVar[str] = "SNP-015"
    hint: ClassVar[str] = (
        "Write an expression over the columns of the master table, without "
        "subqueries and aggregates."
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
    #: the columns that it looks at
    columns: tuple[str, ...]


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
        BadCondition: it is no boolean expression over the columns of the table.
    """
    driver = raw(connection)
    try:
        with driver.transaction(force_rollback=True):
            return _judge(driver, table, condition)
    except psycopg.Error as error:
        raise _refusal(error, condition) from None


def _judge(
    driver: psycopg.Connection[tuple[object, ...]], table: QualifiedName, condition: str
) -> Condition:
    probe = sql.Identifier("pg_temp", table.name)
    driver.execute('SET LOCAL search_path = "$user", public')
    driver.execute("SET LOCAL lock_timeout = '10s'")
    driver.execute(
        sql.SQL("CREATE TEMP TABLE {} (LIKE {})").format(
            sql.Identifier(table.name), identifier(table)
        )
    )
    # The line break ends a comment at the end of the condition. A text that parses both
    # in parentheses and without them closes none that it did not open.
    bare = sql.SQL("CASE WHEN {}\nTHEN true END").format(sql.SQL(condition))
    where = sql.SQL("({}\n)").format(sql.SQL(condition))
    for form in (bare, where):
        _parse(driver, sql.SQL("SELECT {} FROM {}").format(form, probe))
    _one_statement(
        driver, sql.SQL("CREATE INDEX ON {} ((1)) WHERE {}").format(probe, where)
    )
    driver.execute("SET LOCAL search_path = pg_catalog")
    row = driver.execute(_PRINTED, [table.name]).fetchone()
    # PostgreSQL stores no predicate if it is always true.
    printed, columns = row or ("true", [])
    return Condition(text=str(printed), columns=tuple(columns))  # type: ignore[arg-type]


_PRINTED = """
SELECT pg_get_expr(i.indpred, i.indrelid),
       ARRAY(SELECT DISTINCT a.attname::text FROM pg_depend d
             JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
             WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
               AND d.refobjid = i.indrelid AND d.refobjsubid > 0)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = pg_my_temp_schema() AND c.relname = %s AND i.indpred IS NOT NULL
"""


def _parse(
    driver: psycopg.Connection[tuple[object, ...]], statement: sql.Composed
) -> None:
    """Let the server parse a statement without running it; only one is allowed."""
    _check(driver, driver.pgconn.prepare(b"", statement.as_bytes(driver)))


def _one_statement(
    driver: psycopg.Connection[tuple[object, ...]], statement: sql.Composed
) -> None:
    """Run a statement by the extended protocol, which takes exactly one."""
    _check(driver, driver.pgconn.exec_params(statement.as_bytes(driver), None))


def _check(
    driver: psycopg.Connection[tuple[object, ...]], result: psycopg.pq.abc.PGresult
) -> None:
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(result, encoding="utf-8")


def _refusal(error: psycopg.Error, condition: str) -> BadCondition:
    diag = error.diag
    reason = diag.message_primary or str(error)
    kind = ConditionNotImmutable if diag.sqlstate == _NOT_IMMUTABLE else BadCondition
    return kind(
        f"PostgreSQL refuses the condition {condition!r}: {reason}", condition=condition
    )


def clause(condition: str | None) -> ColumnElement[bool]:
    """A stored condition, for a SELECT from its table alone."""
    return true() if condition is None else literal_column(f"({condition})", Boolean)
