"""Finds out whether a lens cannot make a value, after rows could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import ColumnElement, Connection, func, select
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from sites.conditions import where
from sites.sessions.exchange import raw
from sites.sessions.site import Site
from sites.transfer.arrow import ArrowTransportFailed
from sites.transfer.transport import literal_text
from snapshots.differences.window import Member
from snapshots.errors import LensFails
from snapshots.spark.errors import SparkError

#: Tries an expression for one row after another, and says for which it fails.
_TRIED = """
DECLARE a_row record;
BEGIN
    FOR a_row IN {rows} LOOP
        BEGIN
            PERFORM {value};
        EXCEPTION WHEN OTHERS THEN
            RAISE EXCEPTION USING MESSAGE = SQLERRM, DETAIL = a_row.key;
        END;
    END LOOP;
END
"""


@contextmanager
def named(master: Site, members: Sequence[Member]) -> Iterator[None]:
    """Name the lens and the row if the block fails because a lens makes no value.

    Parameters:
        members: whose rows the block reads.

    Raises:
        LensFails: an expression fails for a row.
    """
    try:
        yield
    except (DBAPIError, ArrowTransportFailed, SparkError) as error:
        for member in members:
            for name in member.old:
                _refuse_failing(master, member, name, error)
        raise


def _refuse_failing(
    master: Site, member: Member, name: str, because: Exception
) -> None:
    """Make a column of all rows as the lens does, with nothing else.

    Raises:
        LensFails: it fails.
    """
    rows = member.master.sql()
    value = member.old[name].value(rows.c)
    condition = where.clause(member.snapshot.condition)
    try:
        with master.session() as connection:
            connection.scalar(
                select(func.count(value)).select_from(rows).where(condition)
            )
    except DBAPIError as error:
        if not sqlstate.caused_by_transaction(error):
            return
        with master.session() as connection:
            key = _key(connection, member, name)
        raise LensFails(
            f"The lens of {member.snapshot.master} cannot make {name}"
            f"{'' if key is None else f' for the row {key}'}: "
            f"{sqlstate.message(error).rstrip('.')}.",
            snapshot=member.snapshot.key,
            column=name,
            key=key,
        ) from because


def _key(connection: Connection, member: Member, name: str) -> str | None:
    """The key of the first row for which a lens fails; None if it fails for none."""
    table, old = member.master.sql(), member.old[name]
    identity = (table.c[each] for each in member.snapshot.identity_columns)
    inputs = {now: f"c{n}" for n, now in enumerate(old.inputs.values())}
    key = func.concat_ws(", ", *(sa.cast(one, sa.Text) for one in identity))
    columns = (table.c[now].label(place) for now, place in inputs.items())
    wanted = select(key.label("key"), *columns)
    wanted = wanted.where(where.clause(member.snapshot.condition))
    a_row: dict[str, ColumnElement[Any]] = {
        now: sa.literal_column(f"a_row.{place}") for now, place in inputs.items()
    }
    tried = sql.SQL(_TRIED).format(
        rows=sql.SQL(literal_text(wanted)), value=sql.SQL(_text(old.value(a_row)))
    )
    driver = raw(connection)
    try:
        driver.execute(sql.SQL("DO {}").format(sql.Literal(tried.as_string(driver))))
    except psycopg.Error as error:
        return error.diag.message_detail
    return None


def _text(value: ColumnElement[Any]) -> str:
    return literal_text(select(value)).removeprefix("SELECT ")
