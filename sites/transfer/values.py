"""Converting Python values to text that the database reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa
from psycopg.adapt import PyFormat, Transformer
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import array

from sites.sessions.exchange import raw
from sites.transfer.types import NativeType

_SIZE = re.compile(r"\(\d+(,-?\d+)?\)")
#: Without a length these names mean a length of one.
_UNSIZED = {"character": "bpchar", "bit": "bit varying"}


#: Types whose text in Python the database can read; the driver converts all others.
_PLAIN: Mapping[type, Callable[[Any], str]] = {
    bool: lambda value: "t" if value else "f",
    int: str,
    float: repr,
    Decimal: str,
    UUID: str,
}


def as_text(connection: Connection, value: object) -> str | None:
    """A value as the database would print it; None is NULL.

    Dates and timestamps at the ends of Python's range stand for infinity, as
    `sites.sessions.connections` reads them.
    """
    if value is None or isinstance(value, str):
        return value
    if (plain := _PLAIN.get(type(value))) is not None:
        return plain(value)
    if isinstance(value, date):
        return _infinite(value) or value.isoformat()
    if isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(item, Mapping) for item in value)
    ):
        return json.dumps(value)
    dumper = Transformer(raw(connection)).get_dumper(value, PyFormat.TEXT)
    return bytes(dumper.dump(value) or b"").decode()


def texts(connection: Connection, row: Mapping[str, object]) -> dict[str, str | None]:
    """A row as text."""
    return {name: as_text(connection, value) for name, value in row.items()}


def from_text(value: ColumnElement[Any], type_name: str) -> ColumnElement[Any]:
    """Text as a value of a type, without its length.

    A cast to a type with length would cut a long value; an assignment refuses it.
    """
    return sa.cast(value, NativeType(unsized(type_name)))


def printed(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """A value as the database prints it.

    A cast to text would remove the blanks at the end of a `bpchar`. Without a length
    they are not padding, but part of the value.
    """
    if isinstance(value.type, NativeType) and value.type.name == "bpchar":
        return sa.func.textin(sa.func.bpcharout(value), type_=sa.Text)
    return sa.cast(value, sa.Text)


def unsized(type_name: str) -> str:
    """The name of a type without its length, for a cast."""
    base = _SIZE.sub("", type_name)
    plain, array, _ = base.partition("[]")
    if not array:
        return _UNSIZED.get(base, base)
    return _UNSIZED.get(plain, plain) + base[len(plain) :]


def unnested(
    name: str, columns: Mapping[str, tuple[sa.types.TypeEngine[Any], Sequence[object]]]
) -> sa.FromClause:
    """Rows of values as a table in a statement: one array per column.

    Parameters:
        columns: name -> type and values, in the order of the rows.
    """
    arrays = [
        sa.cast(sa.literal(array_text(values), sa.Text), sa.ARRAY(type_))
        for type_, values in columns.values()
    ]
    table = sa.func.unnest(*arrays).table_valued(
        *(sa.column(name, type_) for name, (type_, _) in columns.items()), name=name
    )
    return table.render_derived()


def each_of(
    name: str, columns: Sequence[str], rows: Iterable[Sequence[ColumnElement[Any]]]
) -> sa.FromClause:
    """Rows of expressions over another table of the statement, to be joined with it.

    They are unnested from arrays: PostgreSQL computes VALUES beside each row of a table
    half as fast, and SQLAlchemy compiles a statement with VALUES each time anew.

    Parameters:
        columns: the names of their columns.
        rows: at least one; as many values each as there are columns, of one type each.
    """
    values = list(zip(*rows, strict=True))
    named = [
        sa.column(column, of[0].type)
        for column, of in zip(columns, values, strict=True)
    ]
    table = sa.func.unnest(*map(array, values)).table_valued(*named)
    return table.render_derived().lateral(name)


@dataclass(frozen=True, slots=True)
class Numbers(Sequence[int]):
    """Numbers that go back to the database as they came, as the text of an array.

    The text is read only if a number is wanted.
    """

    text: str

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Self:
        """Some numbers in their order."""
        return cls("{" + ",".join(map(str, numbers)) + "}")

    @classmethod
    def together(cls, several: Iterable[Numbers]) -> Self:
        """All numbers of several."""
        return cls("{" + ",".join(one.text[1:-1] for one in several if one) + "}")

    @property
    def first(self) -> int:
        """The first number; the others are not read."""
        return int(self.text[1:-1].partition(",")[0])

    def __len__(self) -> int:
        return 0 if self.text == "{}" else self.text.count(",") + 1

    def __iter__(self) -> Iterator[int]:
        return map(int, self.text[1:-1].split(",")) if self else iter(())

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]


def array_text(values: Iterable[object]) -> str:
    """Numbers and texts as the text of an array; None is NULL.

    The driver can write arrays, too, but takes ten times as long for each text.
    """
    if isinstance(values, Numbers):
        return values.text
    return "{" + ",".join(map(_item, values)) + "}"


def bigints(numbers: Iterable[int]) -> ColumnElement[Any]:
    """Numbers as one value, an array of bigint."""
    kind = NativeType("bigint[]")
    # No cast from text: the planner would not see a constant.
    return sa.cast(sa.literal(array_text(numbers), kind), kind)


def _item(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def _infinite(value: date) -> str | None:
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
        ends: tuple[date, date] = (datetime.min, datetime.max)
    else:
        ends = (date.min, date.max)
    return {ends[0]: "-infinity", ends[1]: "infinity"}.get(value)
