"""Makes an image: rows of one moment of a master, as files that fill snapshots."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from psycopg import sql
from sqlalchemy import Connection, Row, Select, func, select

from masters import group_schema
from masters.group_schema import SchemaVersion
from masters.log import catalog
from masters.log import images as registered
from sites import faults, names
from sites.capture import position
from sites.conditions import ranges, subqueries
from sites.conditions.ranges import Range
from sites.conditions.where import clause
from sites.errors import SnaptideError, UnknownTable
from sites.names import QualifiedName
from sites.progress import Progress
from sites.sessions import identity
from sites.sessions.exchange import raw
from sites.sessions.site import Site
from sites.tables.definitions import locale
from sites.tables.table import describe
from sites.transfer.transport import literal_text
from snapshots.definitions.definition import Definition, define
from snapshots.differences.images import source
from snapshots.errors import PositionMoved
from snapshots.images import folder as folders
from snapshots.images import manifest, slices
from snapshots.images.errors import ImageConditionRefused
from snapshots.images.manifest import ImageTable, Manifest, Part, Slice
from snapshots.images.report import ImageReport
from snapshots.refreshing import task

#: Of a table, before it is compressed.
SLICE_BYTES = 256 * 2**20

EXPIRES = timedelta(days=14)

#: What a master says of the moment, and of its tables.
_FACTS = (position.CURRENT, func.now().label("taken_at"), group_schema.VERSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What is to be made."""

    master: Site
    folder: Path
    id: uuid.UUID
    name: str
    expires_at: datetime
    definitions: Sequence[Definition]
    slice_bytes: int
    progress: Progress | None


def make_image(
    master: Site,
    folder: str | Path,
    tables: Sequence[str],
    *,
    name: str | None = None,
    where: Mapping[str, str] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    slice_bytes: int = SLICE_BYTES,
    expires: timedelta = EXPIRES,
    progress: Progress | None = None,
) -> ImageReport:
    """Write rows of one moment to files that fill snapshots without their master.

    Users go on writing meanwhile. Until the image expires, the logs of its tables keep
    what has changed since, so that the first refresh of such a snapshot is fast.

    If it is broken off, the folder has no manifest, and no snapshot can be loaded from
    it; the next call with the same folder removes what is left, and begins anew.

    Parameters:
        master: the site that has the tables, each with a snapshot log.
        folder: where the files are to be; it is created if there is none.
        tables: as table or schema.table.
        name: of the image at the master; by default that of the folder.
        where: by table, which rows: an immutable expression over its columns. By
            default all: one image then serves snapshots with any condition.
        columns: by table, which columns; all of them by default.
        slice_bytes: how much of a table a file holds, before it is compressed.
        expires: how long the logs keep what has changed since.
        progress: is told how many rows are written.

    Raises:
        SiteUnreachable, SiteChanged: the master cannot take part.
        UnknownTable, NoSnapshotLog, BadCondition: a table is not suitable.
        SnapshotRefused: there could be no snapshot of a table; the message says why.
        ImageConditionRefused: a condition asks other tables.
        ImageFolderUnusable: the folder has something else in it, or cannot be written.
        ImageNameTaken: the master has another image of that name.
        PositionMoved: a table was altered while the image was begun.
        UnknownImage: the image was dropped, or has expired, while it was made.
    """
    path = Path(folder)
    definitions = [
        define(master, one, columns=chosen, condition=condition, updatable=False)
        for one, chosen, condition in _asked(tables, columns or {}, where or {})
    ]
    for one in definitions:
        _refuse_asking(one)
    called, image_id = name or path.resolve().name, uuid.uuid4()
    with folders.claimed(path, image_id) as left:
        with master.transaction() as connection:
            for former in left:
                registered.forget(connection, former)
            wanted = [one.table.qualified for one in definitions]
            expires_at = registered.register(
                connection, image_id, called, wanted, expires
            )
        faults.point("image_make.after_register")
        order = _Order(
            master=master,
            folder=path,
            id=image_id,
            name=called,
            expires_at=expires_at,
            definitions=definitions,
            slice_bytes=slice_bytes,
            progress=progress,
        )
        with _taken_back(master, image_id):
            return _report(path, _make(order))


@contextmanager
def _taken_back(master: Site, image_id: uuid.UUID) -> Iterator[None]:
    """If the block fails, have the logs keep nothing for the image any more."""
    try:
        yield
    except BaseException:
        with suppress(SnaptideError), master.transaction() as connection:
            registered.forget(connection, image_id)
        raise


def _asked(
    tables: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    conditions: Mapping[str, str],
) -> list[tuple[QualifiedName, Sequence[str] | None, str | None]]:
    """Each table once, with the columns and rows that are asked for.

    Raises:
        UnknownTable: these are asked for of another table, or there is none.
    """
    wanted = [*dict.fromkeys(map(names.parse, tables))]
    chosen = names.by_table(columns, wanted, UnknownTable)
    rows = names.by_table(conditions, wanted, UnknownTable)
    if not wanted:
        raise UnknownTable("Name the tables of the image.")
    return [(one, chosen.get(one), rows.get(one)) for one in wanted]


def _refuse_asking(one: Definition) -> None:
    if subqueries.parts(one.condition, one.table.qualified).subqueries:
        raise ImageConditionRefused(
            f"The condition of {one.table.qualified} asks other tables.",
            table=str(one.table.qualified),
        )


def _make(order: _Order) -> Manifest:
    with order.master.session() as connection:
        tables = [one.table.qualified for one in order.definitions]
        task.hold(connection, tables, gone="A table was dropped meanwhile.")
        them, row = identity.confirm_and_read(connection, order.master.name, _FACTS)
        versions = group_schema.of(row.versions)
        logs = catalog.logs_since(connection, tables, row.position)
        every = [_table(connection, one, versions, logs) for one in order.definitions]
        filled = _write(connection, order, every)
        its_locale = locale(connection)
        connection.rollback()
    made = Manifest(
        id=order.id,
        name=order.name,
        master=them,
        position=row.position,
        taken_at=row.taken_at,
        expires_at=order.expires_at,
        locale=its_locale,
        tables=tuple(filled),
    )
    faults.point("image_make.before_finish")
    with order.master.transaction() as connection:
        registered.finish(connection, order.id, made.position)
    faults.point("image_make.before_manifest")
    manifest.write(order.folder, made)
    return made


def _table(
    connection: Connection,
    one: Definition,
    versions: Mapping[QualifiedName, SchemaVersion],
    logs: Mapping[QualifiedName, Row[Any]],
) -> ImageTable:
    """A table as it is at the moment of the image.

    Raises:
        PositionMoved: it was altered since it was looked at.
    """
    name = one.table.qualified
    table, log = describe(connection, name), logs.get(name)
    whole = log is not None and log.whole
    if table != one.table:
        raise PositionMoved(f"{name} was altered meanwhile.")
    return ImageTable(
        table=table,
        columns=one.columns,
        condition=one.condition,
        identity=one.identity,
        with_rowid=one.with_rowid,
        indexes=one.indexes,
        types=tuple(one.types.values()),
        parts=tuple(
            # As long as a log does not record all parts, rows may change unseen.
            Part(oid=oid, name=leaf.name, file=leaf.file if whole else 0)
            for oid, leaf in ranges.leaves(connection, name).items()
        ),
        schema_version=versions.get(name),
    )


def _write(
    connection: Connection, order: _Order, tables: Sequence[ImageTable]
) -> list[ImageTable]:
    """Write the slices of all tables, a few at a time, with rows of one moment."""
    moment = str(connection.scalar(select(func.pg_export_snapshot())))
    wanted = [
        (one, part)
        for one in tables
        for part in ranges.ctid_ranges(
            connection,
            one.table.qualified,
            part_bytes=order.slice_bytes,
            at_once=slices.AT_ONCE,
        )
    ]
    rows, made = 0, defaultdict[QualifiedName, list[Slice]](list)
    with ThreadPoolExecutor(slices.AT_ONCE, thread_name_prefix="slice") as pool:
        write = partial(_write_slice, order, moment)
        for (one, _), written in zip(
            wanted, pool.map(write, count(1), wanted), strict=True
        ):
            made[one.table.qualified].append(written)
            rows += written.rows
            if order.progress is not None:
                order.progress(rows, None, "rows")
    return [replace(one, slices=tuple(made[one.table.qualified])) for one in tables]


def _write_slice(
    order: _Order, moment: str, number: int, wanted: tuple[ImageTable, Range]
) -> Slice:
    """Write a slice over a connection of its own.

    Parameters:
        moment: a snapshot that a transaction at the master has exported, and that lasts
            as long as this transaction is open.
    """
    with order.master.session() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")
        at = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(moment))
        raw(connection).execute(at)
        query = literal_text(_rows(*wanted))
        made = slices.write(order.folder, number, connection, query)
        connection.rollback()
    faults.point("image_make.after_slice")
    return made


def _rows(one: ImageTable, part: Range) -> Select[Any]:
    """The rows of a range that belong to the image, as they are."""
    table = source(one.table, part).alias(one.table.name)
    query = select(*(table.c[name] for name in one.columns))
    return part.restrict(query.where(clause(one.condition)), table)


def _report(folder: Path, made: Manifest) -> ImageReport:
    every = [part for one in made.tables for part in one.slices]
    return ImageReport(
        image=made.name,
        folder=str(folder),
        tables=tuple(str(one.table.qualified) for one in made.tables),
        rows=sum(one.rows for one in every),
        slices=len(every),
        bytes=sum(one.bytes for one in every),
        position=made.position,
        taken_at=made.taken_at,
        expires_at=made.expires_at,
    )
