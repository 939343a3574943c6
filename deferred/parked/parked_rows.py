"""Which rows of a table the parked transactions of a master change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, FromClause, Text, or_, select, tuple_

from deferred.error_catalog import error_call, error_transaction
from sites import QualifiedName


@dataclass(frozen=True, slots=True)
class ParkedRow:
    """A row that a parked transaction changes."""

    error_id: int
    #: the site that pushed the transaction, and the transaction's id where it was made
    origin: str
    transaction: str
    #: the values of the columns that identify the row, as texts
    key: tuple[str | None, ...]


def of_table(
    connection: Connection,
    table: QualifiedName,
    identity: Sequence[str],
    *which: ColumnElement[bool],
    among: FromClause | None = None,
) -> Iterator[ParkedRow]:
    """The rows of a table in the error queue, before and after each change.

    The latest errors come first: a dict that is made of them keeps the earliest.

    Parameters:
        identity: the columns that identify a row.
        which: conditions on `error_transaction`.
        among: only changes of rows that have one of these keys before or after it, each
            part of a key as a text.
    """
    old, new = (
        [image.op("->>", return_type=Text())(name) for name in identity]
        for image in (error_call.c.old_values, error_call.c.new_values)
    )
    if among is not None:
        wanted = select(*among.c)
        which = (*which, or_(*(tuple_(*key).in_(wanted) for key in (old, new))))
    error = error_transaction.c
    query = (
        select(error.id, error.origin, error.origin_transaction, *old, *new)
        .join_from(error_transaction, error_call, error_call.c.error_id == error.id)
        .where(
            error_call.c.target_schema == table.schema,
            error_call.c.target_table == table.name,
            *which,
        )
        .order_by(error.id.desc())
    )
    count = len(identity)
    for number, origin, transaction, *parts in connection.execute(query):
        for key in {tuple(parts[:count]), tuple(parts[count:])}:
            if any(part is not None for part in key):
                yield ParkedRow(number, origin, transaction, key)
