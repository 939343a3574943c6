"""The rows of a master as they are now, found by the keys in parked calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Connection, Text, and_, select
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.parked.image import Image
from sites import QualifiedName
from sites.errors import UnknownTable
from sites.tables.table import Table, describe
from sites.transfer.values import from_text, printed, unnested


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is to be found, and which of its columns are wanted."""

    target: QualifiedName
    #: the columns that identify the row, and their values as text
    identity: tuple[str, ...]
    key: tuple[str | None, ...]
    columns: tuple[str, ...]


def read(connection: Connection, places: Iterable[Place]) -> dict[Place, Image]:
    """The rows that are there, with one statement for each table.

    A row is missing if the table or a column of its key is gone, if the key's type
    cannot read the value, or if the table cannot be read.
    """
    alike: dict[tuple[QualifiedName, tuple[str, ...], tuple[str, ...]], list[Place]]
    alike = {}
    for place in dict.fromkeys(places):
        how = (place.target, place.identity, place.columns)
        alike.setdefault(how, []).append(place)
    found: dict[Place, Image] = {}
    for those in alike.values():
        try:
            with connection.begin_nested():
                found |= _of_table(connection, those)
        except UnknownTable:
            continue
        except DBAPIError as error:
            if not (sqlstate.caused_by_transaction(error) or sqlstate.held_up(error)):
                raise
    return found


def _of_table(connection: Connection, places: Sequence[Place]) -> dict[Place, Image]:
    """The rows of places that differ in their keys alone."""
    first = places[0]
    table = describe(connection, first.target)
    if not {*first.identity} <= {*table.names}:
        return {}
    names = [name for name in first.columns if name in table.names]
    target = table.sql()
    keys = unnested(
        "wanted",
        {
            "place": (BigInteger(), range(len(places))),
            **{
                f"k{n}": (Text(), [place.key[n] for place in places])
                for n in range(len(first.identity))
            },
        },
    )
    same = [
        target.c[name] == from_text(keys.c[f"k{n}"], _type(table, name))
        for n, name in enumerate(first.identity)
    ]
    values = [printed(target.c[name]) for name in names]
    wanted = select(keys.c.place, *values).join_from(keys, target, and_(*same))
    return {
        places[number]: dict(zip(names, row, strict=True))
        for number, *row in connection.execute(wanted)
    }


def _type(table: Table, name: str) -> str:
    return table.column(name).recorded
