"""Which columns of a snapshot draw numbers of the site's own, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from masters.errors import CannotLease
from masters.numbers.columns import Method
from masters.numbers.source import source_of
from sites.tables.table import Column, Table
from snapshots.definitions.errors import NumbersRefused, UnknownColumn

#: What a user says for a column that is to draw nothing.
NONE = "none"

#: Users of other systems ask for it; docs/decisions/0011 has the whole answer.
_NO_SNOWFLAKE = (
    "snowflake is refused: numbers made of a clock come twice once it goes back, "
    "and they need what a lease needs, a number that the master gives to one site "
    "alone. Use lease, with as many numbers as the site may need while it is away "
    "(snaptide numbers lease SITE COLUMN --numbers 100000000), or uuidv7 in a column "
    "of type uuid."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """The columns that draw numbers, and those that could have, with the reason."""

    methods: Mapping[str, Method]
    refused: Mapping[str, str]


#: For a snapshot, or a look at one, where no column draws any.
NOTHING = Numbered(methods={}, refused={})


def numbered(
    connection: Connection,
    table: Table,
    columns: Sequence[str] | None,
    asked: Mapping[str, str],
    updatable: bool,
) -> Numbered:
    """How columns get a value that an insert at the site does not give.

    Columns that draw theirs from a sequence of the master lease numbers, unless the
    user asks for something else, or the master cannot lease them.

    Parameters:
        connection: to the master.
        columns: those of the snapshot; None for all.
        asked: by column, what the user asks for.

    Raises:
        UnknownColumn, NumbersRefused, CannotLease: what was asked for is not possible.
    """
    _refuse_unknown(table, columns, asked, updatable)
    if not updatable:
        return NOTHING
    methods: dict[str, Method] = {}
    refused: dict[str, str] = {}
    for column in table.columns:
        how = asked.get(column.name)
        if columns is not None and column.name not in columns:
            continue
        if how is not None and how != NONE:
            methods[column.name] = _checked(connection, table, column, Method(how))
        elif how is None and _draws(column):
            try:
                source_of(connection, table.qualified, column.name)
                methods[column.name] = Method.LEASE
            except CannotLease as error:
                refused[column.name] = error.message
    return Numbered(methods=methods, refused=refused)


def _draws(column: Column) -> bool:
    """Whether the master draws the values of a column from a sequence."""
    return bool(column.identity) or (
        not column.generated and (column.default or "").startswith("nextval(")
    )


def _checked(
    connection: Connection, table: Table, column: Column, how: Method
) -> Method:
    name = f"Column {column.name} of {table.qualified}"
    if column.generated:
        raise NumbersRefused(f"{name} is generated from other columns.")
    if how is Method.LEASE:
        source_of(connection, table.qualified, column.name)
    elif column.recorded != "uuid":
        raise NumbersRefused(f"{name} is of type {column.type}, not uuid.")
    return how


def _refuse_unknown(
    table: Table,
    columns: Sequence[str] | None,
    asked: Mapping[str, str],
    updatable: bool,
) -> None:
    for name, how in asked.items():
        if name not in (table.names if columns is None else columns):
            raise UnknownColumn(
                f"The snapshot of {table.qualified} has no column {name!r}.",
                column=name,
            )
        if how == "snowflake":
            raise NumbersRefused(f"Column {name}: {_NO_SNOWFLAKE}")
        if how not in (*Method, NONE):
            raise NumbersRefused(
                f"{how!r} is no way to number column {name} (lease, uuidv7, none)."
            )
        if not updatable and how != NONE:
            raise NumbersRefused(
                f"The snapshot of {table.qualified} is read-only: nobody inserts into "
                f"it, so column {name} needs no numbers."
            )
