"""Detects changes of what a snapshot is to hold that no trigger sees.

DDL that rewrites a table (ALTER TYPE ... USING, SET EXPRESSION) gives it another file.
A column that was dropped and added again, or has taken the name of another, has another
number. Each refresh notes files and columns at the moment of its rows; if the next one
finds others, it compares all rows. It also does, needlessly, after VACUUM FULL or
CLUSTER.

CREATE OR REPLACE FUNCTION can change which rows fulfil a condition that calls the
function. Each refresh notes what these functions were, too; functions that they call in
turn are not looked at.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.queues.queue import Queue, find_queue
from sites.conditions.printed import Printed
from sites.names import plain
from sites.sessions.prepared import as_json
from sites.tables.table import Table
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import ColumnChanged, ColumnGone
from snapshots.sql import load

#: For each column: its number, type and collation, and how it is generated.
Columns = Mapping[str, str]
#: The file of each table that holds rows, by oid; 0 if it may change unseen.
Files = Mapping[int, int]
#: Facts about a master table, kept in the snapshot's row of the catalog.
Seen = Mapping[str, list[Any] | None]
#: Nothing is known: the next refresh compares all rows.
UNKNOWN: Seen = dict.fromkeys(
    ("master_parts", "master_files", "master_columns", "parents")
)

#: The same for a snapshot whose columns stay those of the master's.
COMPARED: Seen = {
    name: value for name, value in UNKNOWN.items() if name != "master_columns"
}

#: By name, as conditions have it, a hash of how all functions of that name are defined.
Functions = Mapping[str, str]

#: Where these stand among the facts about the tables that a condition asks: no table
#: is printed so.
FUNCTIONS = "()"

#: Where it is named, among the same facts, what has all rows compared.
_ASKED_BY = ""

#: Those that are `functions_asked` for, for statements that read more.
CALLED = as_json(
    sa.text(load("functions")).columns(
        sa.column("name", sa.Text), sa.column("definition", sa.Text)
    ),
    "functions",
)


def seen(snapshot: Snapshot, columns: Columns, files: Files) -> Seen:
    """The facts to keep about a master table with these columns and files."""
    return {
        "master_parts": [*sorted(files)],
        "master_files": [files[oid] for oid in sorted(files)],
        "master_columns": [columns[name] for name in snapshot.columns],
    }


def compared_once() -> dict[str, Any]:
    """Has the next refresh compare all rows, by a note that is like no other.

    A refresh takes such a note away only if it is the one that it has read.
    """
    return {**COMPARED, "parents": {_ASKED_BY: str(uuid.uuid4())}}


def why_rewritten(snapshot: Snapshot, columns: Columns, files: Files) -> str | None:
    """Why values may have changed unseen since the last refresh; None if not."""
    before = columns_before(snapshot)
    if before is None or snapshot.master_files is None:
        return "there is no record of the table at the last refresh"
    other = [name for name in snapshot.columns if columns.get(name) != before[name]]
    if other:
        return f"{', '.join(other)} is another column, or of another type"
    parts = snapshot.master_parts or ()
    known = dict(zip(parts, snapshot.master_files, strict=True))
    if not all(files.values()):
        return "it is UNLOGGED or foreign, or a partition or child of another table"
    if any(known.get(oid, file) != file for oid, file in files.items()):
        return "it was rewritten"
    return None


def displaced(snapshot: Snapshot, columns: Columns) -> list[str]:
    """Columns of the snapshot whose names other columns of its base table have taken.

    The base table was made with the snapshot's columns, in their order. Once columns
    have come and gone, their numbers are noted; a dump that is loaded has no gaps.
    """
    now = [number(columns[name]) for name in snapshot.columns]
    places = [*range(1, len(now) + 1)]
    if now == places:
        return []
    noted = snapshot.column_numbers or places
    pairs = zip(snapshot.columns, now, noted, strict=True)
    return [name for name, here, there in pairs if here != there]


def refuse_displaced(snapshot: Snapshot, base: Table) -> None:
    """Make sure that the base table has the snapshot's own columns.

    Raises:
        ColumnGone: other columns have taken the names of some.
    """
    others = displaced(snapshot, {c.name: c.state for c in base.columns})
    if others:
        raise ColumnGone(
            f"{base.qualified} now has other columns that are called "
            f"{', '.join(others)}.",
            snapshot=snapshot.key,
            columns=others,
        )


def refuse_generated_otherwise(snapshot: Snapshot, table: Table, base: Table) -> None:
    """Make sure that the site computes generated columns as the master does.

    Parameters:
        table, base: the master table, and the snapshot's own.

    Raises:
        ColumnChanged: the master has another expression since the last refresh.
    """
    before = columns_before(snapshot)
    for column in base.columns:
        if before is None or not column.generated or column.name not in before:
            continue
        now = table.column(column.name).state
        if _expression(now) != _expression(before[column.name]):
            raise ColumnChanged(
                f"The master now generates {snapshot.master}.{column.name} "
                f"differently; {snapshot.key} has it as {column.default}.",
                snapshot=snapshot.key,
                column=column.name,
            )


def columns_before(snapshot: Snapshot) -> dict[str, str] | None:
    """The state of each column of the master at the last refresh; None if unknown."""
    if snapshot.master_columns is None:
        return None
    return dict(zip(snapshot.columns, snapshot.master_columns, strict=True))


def has_same_columns(snapshot: Snapshot, table: Table) -> bool:
    """Whether the master table has the columns that it had at the last refresh."""
    before = columns_before(snapshot)
    if before is None:
        return all(name in table.names for name in snapshot.columns)
    there = {column.name: column.number for column in table.columns}
    return all(number(state) == there.get(name) for name, state in before.items())


def numbers(
    connection: Connection, one: Snapshot, table: Table
) -> dict[str, int] | None:
    """The numbers of the columns at the master, as the last refresh noted them.

    None if they are not known, or those of a table that was there before. The queue,
    asked where there was no refresh, does not know columns that the site computes.

    Parameters:
        table: the master table as it is now.
    """
    before, queue = columns_before(one), find_queue(connection, one.key)
    if _was_another(one, queue, table):
        return None
    if before is not None:
        return {name: number(state) for name, state in before.items()}
    if queue is None or queue.target_numbers is None:
        return None
    return dict(zip(queue.columns, queue.target_numbers, strict=True))


def numbers_shown(
    connection: Connection, one: Snapshot, table: Table
) -> dict[str, int]:
    """The numbers of a snapshot's columns at the master, as far as they are known.

    As long as no refresh has noted any, they are those of the names.
    """
    return numbers(connection, one, table) or {
        name: table.column(name).number for name in one.columns if name in table.names
    }


def _was_another(one: Snapshot, queue: Queue | None, table: Table) -> bool:
    """Whether the last refresh saw another master table of that name.

    A table that was made anew, or loaded from a dump, has other numbers.
    """
    if queue is not None and queue.target_oid is not None:
        return queue.target_oid != table.oid
    # The parts of a partitioned table do not tell.
    plain = table.kind == "r" and one.master_parts is not None
    return plain and table.oid not in (one.master_parts or ())


def number(state: str) -> int:
    """The number of a column that has this state."""
    return int(state.partition(" ")[0])


def _expression(state: str) -> list[str]:
    return state.split(" ", 3)[3:]


def functions_asked(snapshots: Iterable[Snapshot]) -> dict[str, list[str]]:
    """The parameters of a statement with `CALLED`."""
    called = sorted({name for one in snapshots for name in _called(one.condition)})
    return {
        "function_schemas": [plain(schema) for schema, _ in called],
        "function_names": [plain(name) for _, name in called],
    }


def functions_of(
    snapshot: Snapshot, found: Sequence[Mapping[str, Any]] | None
) -> Functions:
    """What a snapshot's condition calls, from the column `CALLED` of a row."""
    called = {".".join(name) for name in _called(snapshot.condition)}
    return {
        one["name"]: one["definition"] for one in found or () if one["name"] in called
    }


def functions_differ(snapshot: Snapshot, now: Functions) -> bool:
    """Whether a function is another one than at the last refresh."""
    before: Functions = (snapshot.parents or {}).get(FUNCTIONS, {})
    return before != now


@lru_cache(maxsize=1024)
def _called(condition: str | None) -> frozenset[tuple[str, str]]:
    """The functions, by schema and name; PostgreSQL prints its own without a schema."""
    words = Printed(condition or "").tokens
    return frozenset(
        (words[n], words[n + 2])
        for n in range(len(words) - 3)
        if (words[n + 1], words[n + 3]) == (".", "(")
    )
