"""Lenses for sites that still show columns which their master has split or merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Row

from deferred.parked import lifted_calls
from masters import group_schema
from masters.errors import LensInUse, LensOfGroup, LensRefused, UnknownLens
from masters.log import lens_expressions, lenses, partition, registration
from masters.log.catalog import get_log
from masters.log.lenses import GoneColumn, Lens
from sites import QualifiedName, faults, names
from sites.catalog import SCHEMA
from sites.conditions import where
from sites.conditions.where import BadCondition
from sites.errors import SnaptideError
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import locks
from sites.tables.table import Column, ForeignKey, Table, Unique, describe
from snapshots.creating import shapes
from snapshots.creating.alter_everywhere import refuse_another
from snapshots.definitions import rewrites, snapshot
from snapshots.reports import MappedShape


def map_shape(
    master: Site,
    table: str,
    *,
    gone: Sequence[str],
    sets: Mapping[str, str],
    backs: Mapping[str, str],
) -> MappedShape:
    """Declare a lens: columns of a master table take the place of others.

    Best before the old columns are dropped: it takes effect once they are gone, and
    until then nothing changes. Afterwards, their numbers and types are asked from sites
    that still show them. (pgroll: `up` and `down` of a migration.)

    Parameters:
        table: the master table, as table or schema.table.
        gone: the old columns.
        sets: by new column, an expression over the old columns and those that stay.
        backs: by old column, an expression over the columns that are there afterwards.

    Raises:
        LensOfGroup: the table is in a replication group.
        LensRefused: a column cannot be in a lens, or an expression is wrong.
        NoSnapshotLog: the table has none.
        SiteUnreachable, SiteChanged: the master is away, or another database.
    """
    name = names.parse(table)
    with identity.initialised(master) as connection:
        get_log(connection, name)
        found = describe(connection, name)
        _refuse_group(connection, name)
        if not (gone and sets) or {*gone} != {*backs}:
            raise _refused(
                found,
                "it takes one or more new columns, and for each old column the "
                "expression that makes it",
            )
        shown, away = _sites(master, connection, found)
        old = [_old(one, found, one in sets, shown, away) for one in gone]
        # Two lenses of one column would stop pushes; and the table may have joined a
        # group since the first look.
        locks.against_writers(connection, QualifiedName(SCHEMA, "lens"))
        _refuse_group(connection, name)
        _refuse_columns(connection, found, old, sets, shown)
        made = _declared(connection, found, old, sets, backs)
        faults.point("shape_map.before_commit")
    lens = shapes.shown_lens(made, found)
    return MappedShape(table=str(name), lens=lens, away=away)


def drop_shape(master: Site, table: str, column: str, *, force: bool = False) -> None:
    """Drop an old shape: its lens goes, and changes of its columns are parked.

    Parameters:
        table: the master table, as table or schema.table.
        column: one of the old columns of the lens.
        force: also if sites may have changes that need it.

    Raises:
        UnknownLens: the table has no lens of that column.
        LensInUse: changes wait at a site that shows the column, or are parked at the
            master, whatever their sites show by now; or a site of the table does not
            answer.
        SiteUnreachable, SiteChanged: the master is away, or another database.
    """
    name = names.parse(table)
    with identity.initialised(master) as connection:
        found = describe(connection, name)
        one = _of_column(connection, found, column)
        if one.is_in_effect(found) and not force:
            parked = lifted_calls.waiting(connection, found, one)
            _refuse_waiting(master, found, one, parked)
        lenses.forget(connection, one)
        faults.point("shape_drop.before_commit")


def _of_column(connection: Connection, table: Table, column: str) -> Lens:
    """The lens of an old column.

    Raises:
        UnknownLens.
    """
    for one in lenses.of_table(connection, table):
        if column in {gone.name for gone in one.gone}:
            return one
    raise UnknownLens(
        f"{table.qualified} has no lens of a column {column}.",
        table=str(table.qualified),
        column=column,
    )


def _refuse_waiting(
    master: Site, table: Table, one: Lens, parked: Mapping[str, int]
) -> None:
    """Refuse if there may be changes that need a lens.

    Parameters:
        parked: how many transactions with its old columns are parked, by their origin.

    Raises:
        LensInUse: the message says where, and how many.
    """
    mine = shapes.shown_lens(one, table)
    waiting = [
        f"{its.site} ({its.why or f'{its.waiting} waiting'})"
        for shape in shapes.list_shapes(master, str(table.qualified))
        for its in shape.snapshots
        if its.why or (shape.differs and mine in shape.lenses and its.waiting)
    ]
    waiting += [f"{number} of {origin} parked" for origin, number in parked.items()]
    if waiting:
        raise LensInUse(
            f"Changes of {', '.join(mine.gone)} of {table.qualified} may wait: "
            f"{', '.join(waiting)}.",
            table=str(table.qualified),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What a snapshot of the table shows, or one whose condition asks it."""

    key: str
    #: its columns with their numbers at the master; none if it is of another table
    columns: Mapping[str, tuple[int, Column]]
    #: columns of the table that its condition uses
    used: frozenset[str]


def _sites(
    master: Site, connection: Connection, table: Table
) -> tuple[list[_Shown], tuple[str, ...]]:
    """What sites show of a table, and which of them do not answer."""
    shown, away = list[_Shown](), dict[str, None]()
    for one in registration.asking(connection, table.qualified):
        try:
            shown.append(_of_site(master, connection, table, one))
        except SnaptideError:
            away[one.site_name] = None
    return shown, tuple(away)


def _of_site(
    master: Site, connection: Connection, table: Table, registered: Row[str, str, str]
) -> _Shown:
    site = master.peer(registered.site_name)
    with site.session() as there:
        refuse_another(there, site, registered.site_id)
        one = snapshot.read(there, registered.snapshot)
        used = one.asked.get(table.qualified, frozenset())
        key = f"{one.key} of {site.name}"
        if one.master != table.qualified:
            return _Shown(key=key, columns={}, used=used)
        base = describe(there, one.base)
        known = rewrites.numbers_shown(there, one, table)
    columns = {
        name: (known[name], base.column(name))
        for name in one.columns
        if name in known and name in base.names
    }
    if one.condition is not None:
        try:
            found = where.canonical(connection, one.master, one.condition)
            used |= {*found.columns.get(one.master, ())}
        except BadCondition:
            pass  # a column of it is gone: it stays behind, whatever a lens says
    return _Shown(key=key, columns=columns, used=used)


def _old(
    name: str,
    table: Table,
    new: bool,
    shown: Sequence[_Shown],
    away: Collection[str],
) -> Column:
    """An old column with its number at the master: as it is there, or as sites have it.

    Parameters:
        new: a new column has the same name.

    Raises:
        LensRefused: none has it, or it is not clear which one is meant.
    """
    there = {column.number for column in table.columns}
    found = {
        (number, column.staged_type.name): column
        for number, column in (s.columns[name] for s in shown if name in s.columns)
        if number not in there
    }
    if not found and name in table.names and not new:
        return table.column(name)
    if not found:
        asked = f" that answers ({', '.join(away)} did not)" if away else ""
        raise _refused(table, f"no site{asked} shows a column {name} that is gone")
    if len(found) > 1 or (name in table.names and not new):
        raise _refused(table, f"several columns are called {name}, here or at sites")
    (((number, _), column),) = found.items()
    return replace(column, number=number)


def _refuse_columns(
    connection: Connection,
    table: Table,
    old: Sequence[Column],
    sets: Mapping[str, str],
    shown: Sequence[_Shown],
) -> None:
    """Refuse columns that cannot be in a lens, and those that are in one.

    Raises:
        LensRefused.
    """
    if unknown := [name for name in sets if name not in table.names]:
        raise _refused(
            table,
            f"there is no column {', '.join(unknown)}: add the new columns first",
        )
    others = lenses.of_table(connection, table)
    gone = {column.number for one in others for column in one.gone}
    made = {one.columns[name] for one in others for name in one.sets}
    used = {number for one in others for number in one.columns.values()}
    for column in (*old, *map(table.column, sets)):
        if column.number in gone | made:
            raise _refused(table, f"another lens has column {column.name}")
        if column in old and column.number in used:
            raise _refused(table, f"another lens uses column {column.name}")
        if column.generated:
            raise _refused(table, f"column {column.name} is computed")
    there = {column.name for column in table.columns if column in old}
    for name, why in _needed(connection, table, shown):
        if name in there or name in sets:
            raise _refused(table, f"column {name} {why}")


def _needed(
    connection: Connection, table: Table, shown: Sequence[_Shown]
) -> Iterator[tuple[str, str]]:
    """Columns that identify rows, or decide which rows sites have."""
    log = get_log(connection, table.qualified)
    for name in log.identity_columns:
        yield name, "identifies its rows"
    keys: list[Unique | ForeignKey] = [*table.uniques, *table.foreign_keys]
    for key in keys:
        yield from ((name, f"is of the key {key.name}") for name in key.columns)
    for name in partition.of_log(connection, log.log_table):
        yield name, "is a partition column of its log"
    for one in shown:
        yield from ((name, f"is in the condition of {one.key}") for name in one.used)


def _declared(
    connection: Connection,
    table: Table,
    old: Sequence[Column],
    sets: Mapping[str, str],
    backs: Mapping[str, str],
) -> Lens:
    """Check the expressions, and keep the lens. Writes `lens`.

    Raises:
        LensRefused: an expression is wrong.
    """
    others = lenses.of_table(connection, table)
    numbers = {column.number for one in others for column in one.gone}
    numbers |= {column.number for column in old}
    stay = {
        c.name: c.staged_type.name for c in table.columns if c.number not in numbers
    }
    mine = {column.name: column.staged_type.name for column in old}
    both = {name: kind for name, kind in stay.items() if name not in sets} | mine
    lifting = {
        name: lens_expressions.checked(
            connection, "--set", name, stay[name], expression, both
        )
        for name, expression in sets.items()
    }
    lowering = {
        name: lens_expressions.checked(
            connection, "--back", name, mine[name], backs[name], stay
        )
        for name in mine
    }
    shared = {n for one in lifting.values() for n in one.uses} - mine.keys()
    used = {n for one in lowering.values() for n in one.uses} | shared | sets.keys()
    return lenses.note(
        connection,
        table,
        gone=[
            GoneColumn(
                number=column.number,
                name=column.name,
                type=mine[column.name],
                back=lowering[column.name].text,
            )
            for column in old
        ],
        sets={name: one.text for name, one in lifting.items()},
        columns={name: table.column(name).number for name in sorted(used)},
        shared=shared,
    )


def _refuse_group(connection: Connection, name: QualifiedName) -> None:
    if name in group_schema.versions(connection):
        raise LensOfGroup(f"{name} is in a replication group.", table=str(name))


def _refused(table: Table, why: str) -> LensRefused:
    return LensRefused(
        f"{table.qualified} cannot have this lens: {why}.", table=str(table.qualified)
    )
