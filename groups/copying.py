"""Copies the rows of a group's tables, as they are at one moment, to a new master.

Ranges are copied as by the first load of a snapshot
(`snapshots.differences.parallel_copy`), each in a transaction of its own: a copy that
breaks off leaves rows, which are deleted before the next attempt.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from groups import shape
from groups.errors import GroupChanging
from groups.group import Group
from sites import QualifiedName, Site, faults
from sites.conditions import ranges
from sites.conditions.ranges import Range
from sites.progress import Progress
from sites.tables.analyze import analyze
from sites.tables.table import Table, describe
from sites.tables.users_triggers import silenced
from sites.transfer.transport import copy_in, literal_text
from sites.writing import triggered
from sites.writing.write import parents_first
from snapshots.differences import parallel_copy
from snapshots.spark import claims
from snapshots.spark.claims import Load

if TYPE_CHECKING:
    from snapshots.spark.load import CopyJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Tables whose rows are copied together, after those that they refer to."""

    tables: tuple[Table, ...]
    #: their rows refer to each other, and have to come in one transaction
    bound: bool

    def load_id(self, group: Group) -> uuid.UUID:
        """The id of its load, which an attempt after a crash knows, too."""
        return uuid.uuid5(group.id, str(self.tables[0].qualified))


def copy(
    view: Connection,
    model: Site,
    to: Site,
    group: Group,
    progress: Progress | None = None,
) -> int:
    """Copy all rows of a group's tables into empty ones; commits range by range.

    No trigger of a user fires there: its effects are copied with the rest.

    Parameters:
        view: a REPEATABLE READ transaction at `model`, whose moment is copied.

    Returns:
        How many rows were written.

    Raises:
        LoadFailed: a table does not take the rows.
        GroupChanging: another session copies them, too.
    """
    facts = {"sources": {str(group.id): model.name}}
    settings = triggered.as_brought(model.name, facts)
    moment = str(view.scalar(select(func.pg_export_snapshot())))
    total = 0
    for stretch in stretches([describe(view, name) for name in group.tables]):
        jobs = _jobs(view, stretch, settings)
        on_progress = _after(total, progress)
        load = Load(id=stretch.load_id(group), moment=moment)
        with to.transaction() as target:
            claims.begin(target, load)
        total += parallel_copy.run(model, to, jobs, load, on_progress)
        with to.transaction() as target:
            _end(target, load, group)
            for table in stretch.tables:
                analyze(target, table.sql())
        faults.point("group_join.after_stretch")
    return total


def _end(target: Connection, load: Load, group: Group) -> None:
    """End the load of a stretch.

    Raises:
        GroupChanging: another session has begun to fill its tables meanwhile.
    """
    if not claims.end(target, load):
        raise GroupChanging(
            f"Another session has begun to copy the rows of {group.name}.",
            group=group.name,
        )


def end(connection: Connection, group: Group) -> list[Stretch]:
    """Let a copy that was broken off write no more; wait for what it is writing.

    Returns:
        What it copies, parents first.
    """
    found = stretches([describe(connection, name) for name in group.tables])
    for stretch in found:
        claims.forget(connection, stretch.load_id(group))
    return found


def empty(site: Site, group: Group, model: str) -> None:
    """Delete the rows that a broken-off copy has left, and let it write no more."""
    with site.transaction() as connection:
        facts = {"sources": {str(group.id): model}}
        connection.execute(select(*triggered.brought(model, facts)))
        ended = end(connection, group)
        with silenced(connection, group.tables):
            for stretch in reversed(ended):
                for table in reversed(stretch.tables):
                    connection.execute(sa.delete(table.sql()))


def stretches(tables: Sequence[Table]) -> list[Stretch]:
    """Divide tables, parents first, so that no stretch refers to a later one."""
    known = {table.qualified: table for table in tables}
    order = parents_first(tables)
    places = {name: place for place, name in enumerate(order)}
    found: list[Stretch] = []
    together: list[QualifiedName] = []
    reach, bound = -1, False
    for place, name in enumerate(order):
        together.append(name)
        parents = {key.parent for key in known[name].foreign_keys} & places.keys()
        furthest = max((places[parent] for parent in parents), default=-1)
        bound = bound or furthest >= place
        reach = max(reach, furthest)
        if reach <= place:
            whole = tuple(known[one] for one in together)
            found.append(Stretch(tables=whole, bound=bound))
            together, bound = [], False
    return found


def _after(rows: int, progress: Progress | None) -> Progress | None:
    """Report progress on top of rows that were copied before."""
    if progress is None:
        return None
    return lambda done, total, unit: progress(rows + done, None, unit)


def _jobs(
    view: Connection, stretch: Stretch, settings: Mapping[str, str]
) -> list[CopyJob]:
    divided = [(t, ranges.ctid_ranges(view, t.qualified)) for t in stretch.tables]
    if stretch.bound:
        first, *rest = (_whole(table, parts, settings) for table, parts in divided)
        return [replace(first, then=tuple(rest))]
    return [_part(table, part, settings) for table, parts in divided for part in parts]


def _whole(
    table: Table, parts: Sequence[Range], settings: Mapping[str, str]
) -> CopyJob:
    source = table.sql()
    wanted = select(*(source.c[name] for name in shape.carried(table)))
    return _job(table, wanted, sum(part.bytes for part in parts), settings)


def _part(table: Table, part: Range, settings: Mapping[str, str]) -> CopyJob:
    source = replace(table, schema=part.table.schema, name=part.table.name).sql()
    wanted = select(*(source.c[name] for name in shape.carried(table)))
    return _job(table, part.restrict(wanted, source), part.bytes, settings)


def _job(
    table: Table,
    wanted: sa.Select[*tuple[Any, ...]],
    size: int,
    settings: Mapping[str, str],
) -> CopyJob:
    from snapshots.spark.load import CopyJob

    return CopyJob(
        select=literal_text(wanted),
        copy=copy_in(table.sql(), shape.carried(table)).as_string(),
        into=table.qualified,
        settings=settings,
        bytes=size,
    )
