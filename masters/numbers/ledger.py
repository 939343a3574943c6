"""The ledger of leased numbers at their master: what is in it is never given again.

A lease is drawn number by number, as the master's own inserts draw theirs. So it needs
no lock for which an insert would wait, and no right but USAGE; and the sequence gives
none of its numbers a second time, whatever happens, crashes included. Numbers that
others drew meanwhile lie between its parts.

No purge takes rows of the ledger away. Of each sequence, and of each column, the
furthest one keeps a sequence that was set back from giving its numbers twice. The
others say which numbers each site has had, and which of them it gave back.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from psycopg import errors as pg
from sqlalchemy import BigInteger, Connection, Text, Uuid, bindparam, func, select, text
from sqlalchemy.exc import DBAPIError

from masters.catalog import number_lease
from masters.errors import NumbersUsedUp, SequenceBehind
from masters.numbers.ranges import Stretch
from masters.numbers.source import Source, source_of
from sites.names import QualifiedName
from sites.sessions.identity import Identity

#: Numbers drawn by one statement, which takes some 50 ms; a larger lease takes several.
AT_ONCE = 50_000
#: Numbers that are drawn to bring a sequence beyond those that sites have already.
MOST_SKIPPED = 200_000_000

_lease = number_lease.c


def grant(
    connection: Connection,
    holder: Identity,
    table: QualifiedName,
    column: str,
    count: int,
) -> list[Stretch]:
    """Lease numbers of a column to a site, in at most `AT_ONCE`; writes `number_lease`.

    The site may use them once the caller has committed, and the two have met since.

    Parameters:
        connection: to the master.
        count: how many; fewer come if the sequence is near its end.

    Raises:
        CannotLease, SequenceBehind: see `source_of` and `skip`.
        NumbersUsedUp: the sequence or the column's type has no number left.
    """
    source = source_of(connection, table, column)
    top = _furthest(connection, source, table, column)
    if skip(connection, source, top):
        source = source_of(connection, table, column)
    if not source.room:
        raise NumbersUsedUp(_all_given(table, column, source), sequence=source.sequence)
    values = {
        "sequence": source.sequence,
        "step": source.step,
        # A hundredth of what is left at most, so that one site does not take it all.
        "count": max(1, min(count, AT_ONCE, source.room // 100)),
        "top": top,
        **_whose(holder, table, column),
    }
    rows: Sequence[sa.Row[Any]] = []
    try:
        while not rows:
            rows = connection.execute(_GRANT, values).all()
    except DBAPIError as error:
        if not isinstance(error.orig, pg.SequenceGeneratorLimitExceeded):
            raise
        raise NumbersUsedUp(
            _all_given(table, column, source), sequence=source.sequence
        ) from None
    found = (Stretch(first=r.first, last=r.last, step=r.step) for r in rows)
    return sorted(found, key=lambda one: one.first * source.step)


def _furthest(
    connection: Connection, source: Source, table: QualifiedName, column: str
) -> int | None:
    """The number that the sequence has to pass: the furthest one that sites have.

    Other columns may draw from the same sequence, and this one may have drawn from
    another before.
    """
    furthest = (
        func.max(func.greatest(_lease.first, _lease.last))
        if source.step > 0
        else func.min(func.least(_lease.first, _lease.last))
    )
    found: int | None = connection.scalar(
        select(furthest).where(
            sa.or_(
                _lease.sequence == source.sequence,
                sa.and_(*_of_column(table, column)),
            )
        )
    )
    return found


def _of_column(table: QualifiedName, column: str) -> list[sa.ColumnElement[bool]]:
    return [
        _lease.table_schema == table.schema,
        _lease.table_name == table.name,
        _lease.column_name == column,
    ]


def behind(
    connection: Connection, source: Source, table: QualifiedName, column: str
) -> int | None:
    """The furthest number that sites have, if a sequence was set back before it."""
    top = _furthest(connection, source, table, column)
    # One that gave no number yet may be about to begin anywhere.
    if top is None or source.position is None:
        return None
    return top if _missing(source, source.position, top) > 0 else None


def skip(connection: Connection, source: Source, top: int | None) -> bool:
    """Draw numbers until a sequence is past one that a site has.

    A master that was restored forgot leases, and RESTART gives a sequence an earlier
    number. Nobody gets the numbers that are drawn here.

    Returns:
        Whether there was anything to draw.

    Raises:
        SequenceBehind: too many would have to be drawn.
    """
    if top is None or (missing := _missing(source, source.position, top)) <= 0:
        return False
    if missing > MOST_SKIPPED:
        raise SequenceBehind(
            f"Sequence {source.sequence} is at {source.position}, and sites have "
            f"numbers up to {top}. Run: SELECT setval('{source.sequence}', {top})",
            sequence=source.sequence,
        )
    while missing > 0:
        draws = {"sequence": source.sequence, "count": min(missing, AT_ONCE)}
        position = connection.execute(_DRAW, draws).one().position
        missing = _missing(source, position, top)
    return True


def _missing(source: Source, position: int | None, top: int) -> int:
    """How many draws a sequence is from giving a number past this one."""
    if position is None:
        return (top - source.first) // source.step + 1
    return -((position - top) // source.step)


def record(
    connection: Connection,
    holder: Identity,
    table: QualifiedName,
    column: str,
    held: Sequence[Stretch],
) -> None:
    """Note leases that a site says it has from here, if the ledger lacks them.

    It lacks those that a restore of this master took away. The sequence is drawn past
    them. Writes `number_lease`.

    Raises:
        CannotLease, SequenceBehind: see `source_of` and `skip`.
    """
    source = source_of(connection, table, column)
    for one in held:
        values = {"first": one.first, "last": one.last, "step": one.step}
        whose = _whose(holder, table, column) | {"sequence": source.sequence}
        connection.execute(_RECORD, values | whose)
    if held:
        skip(connection, source, _furthest(connection, source, table, column))


def give_back(
    connection: Connection,
    site_id: uuid.UUID,
    table: QualifiedName,
    column: str,
    unused: Sequence[Stretch],
) -> None:
    """Note which numbers came back unused; nobody gets them all the same.

    Writes `number_lease`.
    """
    for one in unused:
        within = sa.between(
            one.first,
            func.least(_lease.first, _lease.last),
            func.greatest(_lease.first, _lease.last),
        )
        connection.execute(
            sa.update(number_lease)
            .where(
                _lease.site_id == site_id,
                *_of_column(table, column),
                _lease.returned_from.is_(None),
                within,
            )
            .values(returned_from=one.first)
        )


def entries(connection: Connection) -> Sequence[sa.Row[Any]]:
    """What this master has leased, by table, column and site."""
    numbers = (_lease.last - _lease.first) / _lease.step + 1
    back = (_lease.last - _lease.returned_from) / _lease.step + 1
    by = (_lease.table_schema, _lease.table_name, _lease.column_name, _lease.site_name)
    return connection.execute(
        select(
            *by,
            sa.cast(func.sum(numbers), BigInteger).label("numbers"),
            sa.cast(func.coalesce(func.sum(back), 0), BigInteger).label("returned"),
            func.max(_lease.leased_at).label("last_at"),
        )
        .group_by(*by)
        .order_by(*by)
    ).all()


def _whose(holder: Identity, table: QualifiedName, column: str) -> dict[str, object]:
    return {
        "site_id": holder.site_id,
        "site_name": holder.name,
        "incarnation": holder.incarnation,
        "table_schema": table.schema,
        "table_name": table.name,
        "column_name": column,
    }


def _all_given(table: QualifiedName, column: str, source: Source) -> str:
    return (
        f"Column {column} of {table}: sequence {source.sequence} has no number left, "
        "or none that the column's type can hold."
    )


_TYPES = [
    *(bindparam(name, type_=Uuid) for name in ("site_id", "incarnation")),
    *(
        bindparam(name, type_=Text)
        for name in ("site_name", "table_schema", "table_name", "column_name")
    ),
]
_DRAW = text(
    "WITH drawn AS MATERIALIZED (SELECT nextval(CAST(:sequence AS regclass)) AS number"
    " FROM generate_series(1, CAST(:count AS int)))"
    " SELECT count(number),"
    " pg_sequence_last_value(CAST(:sequence AS regclass)) AS position FROM drawn"
).bindparams(bindparam("sequence", type_=Text))
#: Neighbours in the draw are neighbours in the lease, unless others drew in between.
_GRANT = text("""
WITH drawn AS MATERIALIZED (
    SELECT nextval(CAST(:sequence AS regclass)) AS number, place
    FROM generate_series(1, CAST(:count AS int)) place
), part AS (
    SELECT min(number) AS low, max(number) AS high
    FROM drawn
    -- Numbers that a session kept back (CACHE) before the sequence was set are no good.
    WHERE CAST(:top AS bigint) IS NULL
       OR sign(number - CAST(:top AS bigint)) = sign(CAST(:step AS bigint))
    GROUP BY number - place * CAST(:step AS bigint)
)
INSERT INTO snaptide.number_lease (site_id, site_name, incarnation, table_schema,
    table_name, column_name, sequence, first, last, step)
SELECT :site_id, :site_name, :incarnation, :table_schema, :table_name, :column_name,
       CAST(:sequence AS text),
       CASE WHEN CAST(:step AS bigint) > 0 THEN low ELSE high END,
       CASE WHEN CAST(:step AS bigint) > 0 THEN high ELSE low END,
       CAST(:step AS bigint)
FROM part
RETURNING first, last, step
""").bindparams(*_TYPES, bindparam("sequence", type_=Text))
_RECORD = text("""
INSERT INTO snaptide.number_lease (site_id, site_name, incarnation, table_schema,
    table_name, column_name, sequence, first, last, step)
SELECT :site_id, :site_name, :incarnation, :table_schema, :table_name, :column_name,
       CAST(:sequence AS text), CAST(:first AS bigint), CAST(:last AS bigint),
       CAST(:step AS bigint)
WHERE NOT EXISTS (SELECT FROM snaptide.number_lease l
                  WHERE (l.table_schema, l.table_name, l.column_name)
                        = (:table_schema, :table_name, :column_name)
                    AND LEAST(CAST(:first AS bigint), CAST(:last AS bigint))
                        >= LEAST(l.first, l.last)
                    AND GREATEST(CAST(:first AS bigint), CAST(:last AS bigint))
                        <= GREATEST(l.first, l.last))
-- A restored master gave the first ones again: the entry has the numbers of both sites.
ON CONFLICT (sequence, first) DO UPDATE
SET last = CASE WHEN excluded.step > 0 THEN GREATEST(number_lease.last, excluded.last)
                ELSE LEAST(number_lease.last, excluded.last) END
""").bindparams(*_TYPES, bindparam("sequence", type_=Text))
