"""Reading and writing a folder's entries in its tables, at a master or at a site."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from psycopg.rows import class_row
from psycopg.sql import Composed
from sqlalchemy import Connection

from folders.paths import folded
from folders.tables import PIECE, Tables
from sites.sessions.exchange import raw

Kind = Literal["file", "folder"]

#: The hash of content, as an entry has it.
SHA = hashlib.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of a folder, or a folder in it that is or was empty."""

    id: uuid.UUID
    #: relative to the folder, with slashes; of one that is removed, where it was
    path: str
    kind: Kind
    size: int
    mtime: datetime
    sha256: bytes | None
    executable: bool
    removed_at: datetime | None = None

    @property
    def time_us(self) -> int:
        """When it was written, in microseconds since 1970."""
        return round(self.mtime.timestamp() * 10**6)


#: Why a change is left to the next sync.
MEANWHILE = "it was written meanwhile; the next sync looks at it again"


class MovedOn(Exception):
    """The entry or the file was changed meanwhile by another program."""


_READ = (
    "SELECT id, CASE WHEN removed_at IS NULL THEN path"
    " ELSE split_part(path, '//', 1) END AS path, kind, size, mtime, sha256,"
    " executable, removed_at FROM {entry}"
)


def read(
    connection: Connection, tables: Tables, *, removed: bool = False
) -> list[Entry]:
    """All entries by path: those that are there, or those that are removed."""
    statement = tables.sql(_READ + " WHERE (removed_at IS NOT NULL) = %s")
    with raw(connection).cursor(row_factory=class_row(Entry)) as cursor:
        found = cursor.execute(statement, [removed]).fetchall()
    return sorted(found, key=lambda one: one.path)


def find(connection: Connection, tables: Tables, path: str) -> Entry | None:
    """The entry that has a path."""
    statement = tables.sql(_READ + " WHERE path = %s")
    with raw(connection).cursor(row_factory=class_row(Entry)) as cursor:
        return cursor.execute(statement, [path]).fetchone()


def below(connection: Connection, tables: Tables, path: str) -> list[Entry]:
    """The entries within a folder, by path; all, if the path is empty."""
    statement = tables.sql(
        _READ + " WHERE removed_at IS NULL AND starts_with(path, %s) ORDER BY path"
    )
    with raw(connection).cursor(row_factory=class_row(Entry)) as cursor:
        return cursor.execute(statement, [f"{path}/" if path else ""]).fetchall()


_CONTENTS = (
    "SELECT w.number, c.data"
    " FROM unnest(%s::uuid[]) WITH ORDINALITY AS w (entry, number)"
    " JOIN {chunk} c ON c.entry = w.entry ORDER BY w.number, c.n"
)


def contents(
    connection: Connection, tables: Tables, wanted: Sequence[Entry]
) -> Generator[Iterator[bytes], None, None]:
    """The content of each entry, in their order, in pieces.

    All are read by one statement: those of small files would wait for each other.
    Pieces that the caller has not taken are skipped when it takes the next content.
    """
    ids = [one.id for one in wanted]
    with raw(connection).cursor(binary=True) as cursor:
        rows = cursor.stream(tables.sql(_CONTENTS), [ids])
        found = groupby(rows, key=itemgetter(0))
        number, pieces = next(found, _NOTHING)
        for place in range(1, len(wanted) + 1):
            if number == place:
                yield map(itemgetter(1), pieces)
                number, pieces = next(found, _NOTHING)
            else:
                yield iter(())


_NOTHING: tuple[int, Iterator[Any]] = (0, iter(()))


def piece(
    connection: Connection, tables: Tables, entry: uuid.UUID, number: int
) -> bytes:
    """One piece of an entry's content; empty behind the last."""
    statement = tables.sql("SELECT data FROM {chunk} WHERE entry = %s AND n = %s")
    with raw(connection).cursor(binary=True) as cursor:
        found = cursor.execute(statement, [entry, number]).fetchone()
    return b"" if found is None else bytes(found[0])


_ADD = (
    "INSERT INTO {entry} (id, path, kind, size, mtime, sha256, executable)"
    " SELECT id, path, kind, size, mtime, decode(sha256, 'hex'), executable"
    " FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::bigint[],"
    " %s::timestamptz[], %s::text[], %s::boolean[])"
    " AS e (id, path, kind, size, mtime, sha256, executable)"
)

_ADD_PIECES = (
    "INSERT INTO {chunk} (entry, n, data)"
    " SELECT * FROM unnest(%s::uuid[], %s::integer[], %b::bytea[])"
)

#: So many bytes of content are written by one statement: each fires our triggers.
_TOGETHER = 8 * PIECE

#: An entry with its content.
New = tuple[Entry, Iterable[bytes]]


def add(connection: Connection, tables: Tables, new: Sequence[New]) -> None:
    """Write new entries with their content.

    Raises:
        MovedOn: the content of one is not what its entry says.
        psycopg.errors.UniqueViolation: another entry has the path.
    """
    rows = [
        (
            *(one.id, one.path, one.kind, one.size, one.mtime),
            *(one.sha256.hex() if one.sha256 else None, one.executable),
        )
        for one, _ in new
    ]
    _insert(connection, tables.sql(_ADD), rows)
    written, size = list[tuple[uuid.UUID, int, bytes]](), 0
    for row in _numbered(new):
        written.append(row)
        size += len(row[2])
        if size >= _TOGETHER:
            _insert(connection, tables.sql(_ADD_PIECES), written)
            written, size = [], 0
    _insert(connection, tables.sql(_ADD_PIECES), written)


def _insert(
    connection: Connection, statement: Composed, rows: Sequence[Sequence[object]]
) -> None:
    if rows:
        columns = [[*column] for column in zip(*rows, strict=True)]
        raw(connection).execute(statement, columns)


def _numbered(new: Iterable[New]) -> Iterator[tuple[uuid.UUID, int, bytes]]:
    """The pieces of all entries, each with its entry and number.

    Raises:
        MovedOn: they are not what an entry says.
    """
    for entry, pieces in new:
        digest = SHA()
        for number, data in enumerate(pieces):
            digest.update(data)
            yield entry.id, number, data
        if entry.kind == "file" and digest.digest() != entry.sha256:
            raise MovedOn(MEANWHILE)


def copy(connection: Connection, tables: Tables, entry: Entry, path: str) -> None:
    """Write a new entry with the content of another one.

    Raises:
        MovedOn: that one is gone.
        psycopg.errors.UniqueViolation: another entry has the path.
    """
    driver, new = raw(connection), uuid.uuid4()
    insert = tables.sql(
        "INSERT INTO {entry} (id, path, kind, size, mtime, sha256, executable)"
        " SELECT %s, %s, kind, size, mtime, sha256, executable FROM {entry}"
        " WHERE id = %s"
    )
    if driver.execute(insert, [new, path, entry.id]).rowcount != 1:
        raise MovedOn(MEANWHILE)
    content = "INSERT INTO {chunk} SELECT %s, n, data FROM {chunk} WHERE entry = %s"
    driver.execute(tables.sql(content), [new, entry.id])


_BESIDE = (
    "SELECT DISTINCT split_part(substr(path, %(first)s), '/', 1) FROM {entry}"
    " WHERE removed_at IS NULL AND starts_with(path, %(folder)s)"
)


def has_alike(connection: Connection, tables: Tables, path: str) -> bool:
    """Whether another name beside this one differs from it in case or accents alone."""
    parent, slash, name = path.rpartition("/")
    folder = parent + slash
    places = {"folder": folder, "first": len(folder) + 1}
    found = raw(connection).execute(tables.sql(_BESIDE), places).fetchall()
    beside = [str(one) for (one,) in found]
    return any(one != name and folded(one) == folded(name) for one in beside)


def remove(connection: Connection, tables: Tables, gone: Sequence[Entry]) -> None:
    """Mark entries as removed, and free their paths; they stay until `clean`.

    Raises:
        MovedOn: one of them has another path meanwhile, or none.
    """
    move(connection, tables, [(one, None) for one in gone])


#: An entry without a path after the move is removed: its path gets two slashes and its
#: id, as `folders.tables` says.
_MOVE = (
    "UPDATE {entry} e SET path = COALESCE(m.after, e.path || '//' || e.id),"
    " removed_at = CASE WHEN m.after IS NULL THEN now() END"
    " FROM unnest(%s::uuid[], %s::text[], %s::text[]) AS m (id, before, after)"
    " WHERE e.id = m.id AND e.path = m.before"
)


def move(
    connection: Connection, tables: Tables, moved: Sequence[tuple[Entry, str | None]]
) -> None:
    """Give entries other paths; their content stays where it is.

    Parameters:
        moved: each with its new path; None removes it.

    Raises:
        MovedOn: one of them has another path meanwhile, or none.
        psycopg.errors.UniqueViolation: another entry has the path.
    """
    if moved:
        values = [
            [entry.id for entry, _ in moved],
            [entry.path for entry, _ in moved],
            [path for _, path in moved],
        ]
        done = raw(connection).execute(tables.sql(_MOVE), values).rowcount
        if done != len(moved):
            raise MovedOn(MEANWHILE)


def touch(connection: Connection, tables: Tables, entry: Entry) -> None:
    """Note when a file was written, and whether it can be executed.

    Raises:
        MovedOn: the entry has another path meanwhile, or none.
    """
    statement = (
        "UPDATE {entry} SET mtime = %s, executable = %s WHERE id = %s AND path = %s"
    )
    values = [entry.mtime, entry.executable, entry.id, entry.path]
    if raw(connection).execute(tables.sql(statement), values).rowcount != 1:
        raise MovedOn(MEANWHILE)
