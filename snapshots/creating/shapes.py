"""Which columns of a master table each of its snapshots shows, and what waits for it.

The master does not store them: each site that answers is asked for the columns that it
has by their numbers, which are those of the master table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from deferred.parked import error_queue
from deferred.queues.queue import find_queue, undelivered_calls
from masters.log import lenses, registration, site_ddl
from masters.log.catalog import get_log, logged_tables
from masters.log.lenses import Lens
from sites import names
from sites.errors import SnaptideError
from sites.names import QualifiedName
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables.table import Table, describe
from snapshots.creating.alter_everywhere import refuse_another
from snapshots.definitions import rewrites, snapshot
from snapshots.reports import Shape, ShapeLens, SnapshotShape

#: Numbers of columns at the master, and their names at a site, in their order.
_Columns = tuple[tuple[int, str], ...]


def list_shapes(master: Site, table: str | None = None) -> list[Shape]:
    """The shapes in which sites show a master's tables, and who shows each.

    A shape is a set of columns: a column is the same as long as it has its number at
    the master, and a site may show it under a former name. Shapes are numbered by age:
    those with the newest columns come last.

    Parameters:
        table: as table or schema.table; all that have a log if not given.

    Raises:
        NoSnapshotLog: the table has none.
        SiteUnreachable, SiteChanged: the master is away, or another database.
    """
    with identity.confirmed(master) as connection:
        wanted = [names.parse(table)] if table else logged_tables(connection)
        if table:
            get_log(connection, wanted[0])
        found = [_asked(connection, one) for one in wanted]
    return [shape for one in found for shape in _shapes(master, *one)]


def _asked(
    connection: Connection, name: QualifiedName
) -> tuple[Table, list[tuple[Row[Any, Any, Any], SnapshotShape]], tuple[Lens, ...]]:
    """A table, its registered snapshots as the master knows them, and its lenses."""
    found = registration.of_table(connection, name)
    ids = {one.site_id for one in found}
    parked = {one: error_queue.parked(connection, one, [name]) for one in ids}
    staying = site_ddl.staying(connection, name)
    known = [
        SnapshotShape(
            site=one.site_name,
            snapshot=one.snapshot,
            parked=parked[one.site_id],
            follows=one.site_name not in staying,
        )
        for one in found
    ]
    table = describe(connection, name)
    registered = list(zip(found, known, strict=True))
    return table, registered, lenses.of_table(connection, table)


def _shapes(
    master: Site,
    table: Table,
    registered: Sequence[tuple[Row[Any, Any, Any], SnapshotShape]],
    declared: Sequence[Lens],
) -> Iterator[Shape]:
    """The shapes of a table, with its own, and last the snapshots that are not known.

    A site that is away, or refuses to answer, does not stop the others.
    """
    mine = tuple((column.number, column.name) for column in table.columns)
    shown: dict[_Columns, list[SnapshotShape]] = {mine: []}
    away = list[SnapshotShape]()
    for one, its in registered:
        try:
            columns, waiting = _of_site(master, one, table)
        except SnaptideError as error:
            away.append(replace(its, why=error.message))
            continue
        shown.setdefault(columns, []).append(replace(its, waiting=waiting))
    for number, columns in enumerate(sorted(shown, key=_age), 1):
        yield Shape(
            table=str(table.qualified),
            number=number,
            columns=tuple(name for _, name in columns),
            differs=tuple(_differences(columns, table)),
            snapshots=tuple(shown[columns]),
            lenses=tuple(
                shown_lens(one, table)
                for one in declared
                if columns == mine or one.applies_to([n for n, _ in columns])
            ),
        )
    if away:
        yield Shape(table=str(table.qualified), number=None, snapshots=tuple(away))


def shown_lens(one: Lens, table: Table) -> ShapeLens:
    """A lens of a table as it is reported."""
    return ShapeLens(
        gone=tuple(column.name for column in one.gone),
        sets=one.sets,
        backs={column.name: column.back for column in one.gone},
        in_effect=one.is_in_effect(table),
    )


def _age(columns: _Columns) -> tuple[int, _Columns]:
    return max((number for number, _ in columns), default=0), columns


def _of_site(
    master: Site, registered: Row[Any, Any, Any], table: Table
) -> tuple[_Columns, int | None]:
    """The columns of a snapshot, and how many of its calls wait as far as known."""
    site = master.peer(registered.site_name)
    with site.session() as connection:
        refuse_another(connection, site, registered.site_id)
        one = snapshot.read(connection, registered.snapshot)
        known = rewrites.numbers_shown(connection, one, table)
        queue = find_queue(connection, one.key)
        waiting = None if queue is None else undelivered_calls(connection, queue)
    columns = sorted((known.get(name, 0), name) for name in one.columns)
    return tuple(columns), waiting


def _differences(columns: _Columns, table: Table) -> Iterator[str]:
    """What the master has otherwise."""
    called = {column.number: column.name for column in table.columns}
    for number, name in columns:
        now = called.get(number)
        if now is None:
            yield f"{name} is gone"
        elif now != name:
            yield f"{name} is called {now}"
    shown = {number for number, _ in columns}
    yield from (f"{name} is not shown" for n, name in called.items() if n not in shown)
