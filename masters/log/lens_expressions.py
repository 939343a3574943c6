"""Checking the expressions of a lens, and printing them in one form.

The database itself decides: an expression that it accepts for a generated column is
immutable, uses columns of one row, and has a type that the column takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors, sql
from sqlalchemy import Connection

from masters.errors import LensRefused
from sites.sessions.exchange import raw
from sites.writing.triggered import USERS_SEARCH_PATH

_TABLE = sql.Identifier("pg_temp", "snaptide_lens")
_RESULT = sql.Identifier("snaptide$result")

#: With no schema in the path but PostgreSQL's, all other names are printed with theirs.
_PRINTED = """
SELECT pg_get_expr(d.adbin, d.adrelid), array(
    SELECT a.attname::text FROM pg_depend p
    JOIN pg_attribute a ON (a.attrelid, a.attnum) = (p.refobjid, p.refobjsubid)
    WHERE (p.classid, p.objid) = ('pg_attrdef'::regclass, d.oid)
      AND p.refobjid = d.adrelid AND a.attname <> 'snaptide$result'
    ORDER BY a.attnum)
FROM pg_attrdef d WHERE d.adrelid = 'pg_temp.snaptide_lens'::regclass
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """An expression as the database prints it."""

    text: str
    #: the columns that it uses
    uses: frozenset[str]


def checked(
    connection: Connection,
    option: str,
    target: str,
    type_: str,
    expression: str,
    columns: Mapping[str, str],
) -> Expression:
    """Let the database check an expression; functions are found as psql finds them.

    The work is done in a savepoint that is rolled back.

    Parameters:
        option: by which it was given, for messages.
        target: the column that it makes.
        type_: of that column.
        columns: the types of the columns that it may use, by name.

    Raises:
        LensRefused: PostgreSQL refuses it.
    """
    driver: psycopg.Connection[tuple[Any, ...]] = raw(connection)
    defined = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(one))
        for name, one in columns.items()
    ]
    generated = sql.SQL(
        "ALTER TABLE {} ADD {} {} GENERATED ALWAYS AS ({}\n) STORED"
    ).format(_TABLE, _RESULT, sql.SQL(type_), sql.SQL(expression))
    try:
        with driver.transaction(force_rollback=True):
            driver.execute(
                sql.SQL("CREATE TEMP TABLE snaptide_lens ({})").format(
                    sql.SQL(", ").join(defined)
                )
            )
            driver.execute(
                sql.SQL("SET LOCAL search_path = {}").format(sql.SQL(USERS_SEARCH_PATH))
            )
            # In binary, it is one statement.
            driver.execute(generated, binary=True)
            driver.execute("SET LOCAL search_path = pg_catalog")
            found = driver.execute(_PRINTED).fetchall()
    except errors.Error as error:
        if error.sqlstate is None:
            raise  # the connection is lost
        reason = error.diag.message_primary or str(error)
        raise refused(option, target, expression, reason, columns) from None
    if len(found) != 1:
        raise refused(option, target, expression, "it is not one expression", columns)
    text, used = found[0]
    uses = frozenset[str](used)
    if system := uses - columns.keys():
        raise refused(option, target, expression, f"it uses {min(system)}", columns)
    return Expression(text=text, uses=uses)


def refused(
    option: str,
    target: str,
    expression: str,
    reason: str,
    columns: Mapping[str, str],
) -> LensRefused:
    """An expression that cannot be one of a lens.

    Parameters:
        columns: those that it may use.
    """
    return LensRefused(
        f"{option} {target}={expression}: {reason}. It may use "
        f"{', '.join(sorted(columns))}, and no function whose result changes.",
        column=target,
    )
