"""Change the columns of all snapshots of a master table, from the master's side."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from masters.log import registration
from sites import names
from sites.errors import UnknownSite
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables.table import Table, describe
from snapshots.creating.alter_columns import alter_columns
from snapshots.creating.columns_asked import Asked
from snapshots.definitions import rewrites, snapshot
from snapshots.definitions.snapshot import Snapshot
from snapshots.failures import OF_A_SITE, failure
from snapshots.reports import SiteColumns


def alter_columns_everywhere(
    master: Site,
    table: str,
    *,
    add: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    widen: Sequence[str] = (),
) -> list[SiteColumns]:
    """Alter the columns of all snapshots of a master table, one site after the other.

    A snapshot that has all of it already is left alone, so it can be said again until
    all sites are done. So is one that lacks a column to be renamed or widened.

    Parameters:
        table: the master table, as table or schema.table.
        add, drop, rename, widen: as for `alter_columns`.

    Returns:
        What became of each snapshot that is registered at the master, by site. A site
        that cannot be reached, or that refuses, does not stop the others.

    Raises:
        SiteUnreachable, SiteChanged: the master is away, or another database.
        UnknownTable: it has no such table.
    """
    wanted = Asked(add=(*add,), drop=(*drop,), rename=rename or {}, widen=(*widen,))
    name = names.parse(table)
    with identity.confirmed(master) as connection:
        described = describe(connection, name)
        found = registration.of_table(connection, name)
    return [_altered(master, one, described, wanted) for one in found]


def _altered(
    master: Site, registered: Row[Any, Any, Any], table: Table, wanted: Asked
) -> SiteColumns:
    """Alter one snapshot, and say what became of it."""
    where = {"site": registered.site_name, "snapshot": registered.snapshot}
    try:
        return _alter(master, registered, table, wanted)
    except OF_A_SITE as error:
        found = failure(error)
        return SiteColumns(**where, state=found.state, code=found.code, why=found.why)


def _alter(
    master: Site, registered: Row[Any, Any, Any], table: Table, wanted: Asked
) -> SiteColumns:
    site, name = master.peer(registered.site_name), registered.snapshot
    with site.session() as connection:
        refuse_another(connection, site, registered.site_id)
        one = snapshot.read(connection, name)
        left = _left(one, table, describe(connection, one.base), wanted)
    if left == Asked(rename={}):
        return SiteColumns(
            site=site.name, snapshot=name, state="already", columns=one.columns
        )
    report = alter_columns(
        site,
        name,
        add=left.add,
        drop=left.drop,
        rename=left.rename,
        widen=left.widen,
    )
    return SiteColumns(
        site=site.name,
        snapshot=name,
        state="done",
        columns=report.columns,
        pushed=report.pushed,
        left_out=report.left_out,
    )


def refuse_another(connection: Connection, site: Site, registered: uuid.UUID) -> None:
    """Refuse a database that has the name of a registered site, and is another.

    Raises:
        UnknownSite.
    """
    if identity.confirm(connection, site.name).site_id != registered:
        raise UnknownSite(
            f"The site {site.name} that is configured here is not the one that the "
            "master knows.",
            site=site.name,
        )


def _left(one: Snapshot, table: Table, base: Table, wanted: Asked) -> Asked:
    """What a snapshot lacks of what is wanted.

    Parameters:
        table, base: the master table, and the snapshot's own.
    """
    rename = {
        old: new
        for old, new in wanted.rename.items()
        if old in one.columns and _has_other_name(one, old, new, table)
    }
    renamed = {*wanted.rename.values()} - {*rename.values()}
    # A column that is dropped and added again is so for its type.
    again = {
        name
        for name in {*wanted.add} & {*wanted.drop}
        if name not in one.columns or _has_type(base, name, table, name)
    }
    formerly = {new: old for old, new in rename.items()}
    widen = [
        name
        for name in wanted.widen
        if (here := formerly.get(name, name)) in one.columns
        and not _has_type(base, here, table, name)
    ]
    drop = [
        name
        for name in wanted.drop
        if name in one.columns and name not in renamed | again
    ]
    now = Asked(drop=(*drop,), rename=rename).of(one.columns)
    add = [name for name in wanted.add if name not in now]
    return Asked(add=(*add,), drop=(*drop,), rename=rename, widen=(*widen,))


def _has_other_name(one: Snapshot, old: str, new: str, table: Table) -> bool:
    """Whether a snapshot's column is called otherwise at the master now.

    Parameters:
        new: the name that it is to get.
    """
    before = rewrites.columns_before(one)
    if before is None:
        return new not in one.columns
    number = rewrites.number(before[old])
    return old not in table.names or table.column(old).number != number


def _has_type(base: Table, here: str, table: Table, there: str) -> bool:
    """Whether a column of the base table has the type of the master's."""
    both = here in base.names and there in table.names
    return both and base.column(here).type == table.column(there).type
