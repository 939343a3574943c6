"""Checks that masters and snapshot sites agree on which snapshots are registered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, func, or_, select

from masters.catalog import registered_snapshot, snapshot_log
from masters.contract_catalog import contract
from masters.log import registration
from sites import QualifiedName, Site
from sites.catalog import SCHEMA
from sites.errors import SnaptideError
from sites.sessions import identity
from snapshots import catalog as snapshots
from snaptide.asking import asking
from snaptide.doctor.finding import Finding, error, warning

#: A snapshot that was not refreshed for so long is stale.
STALE = timedelta(days=7)


def check(connection: Connection, site: Site) -> Iterator[Finding]:
    """Findings about snapshots registered here, and masters of snapshots here."""
    yield from _stale(connection, site.name)
    yield from _orphaned(connection, site)
    yield from _without_master(connection, site)
    yield from _untold(connection, site.name)


def _stale(connection: Connection, site: str) -> Iterator[Finding]:
    at = registered_snapshot.c
    rows = connection.execute(
        select(registered_snapshot)
        .join(
            snapshot_log,
            and_(
                snapshot_log.c.table_schema == at.table_schema,
                snapshot_log.c.table_name == at.table_name,
            ),
        )
        .where(
            at.position.is_not(None),
            registration.OF_SITE,
            or_(at.refreshed_at.is_(None), at.refreshed_at < func.now() - STALE),
        )
        .order_by("site_name", "snapshot")
    )
    for row in rows:
        when = (
            f"has not been refreshed since {row.refreshed_at:%Y-%m-%d}"
            if row.refreshed_at
            else "has never been refreshed"
        )
        yield warning(
            site,
            f"{row.site_name}:{row.snapshot}",
            f"It {when}: purges leave the rows that the log of "
            f"{QualifiedName(row.table_schema, row.table_name)} holds for it.",
            f"Refresh it at {row.site_name}, or run: snaptide log unregister "
            f"{site} {row.site_name} {row.snapshot}",
        )


def _orphaned(connection: Connection, site: Site) -> Iterator[Finding]:
    rows = connection.execute(
        select(registered_snapshot)
        .where(registration.OF_SITE)
        .order_by("site_name", "snapshot")
    ).all()
    for name in dict.fromkeys(row.site_name for row in rows):
        theirs = [row for row in rows if row.site_name == name]
        for row in _unknown_to(site, name, theirs):
            yield warning(
                site.name,
                f"{name}:{row.snapshot}",
                f"It is registered here, but site {name} has no such snapshot: "
                "the log keeps rows for it without need.",
                f"snaptide log unregister {site.name} {name} {row.snapshot}",
            )


def _unknown_to(site: Site, name: str, rows: list[Row[Any]]) -> list[Row[Any]]:
    """Registrations that their site does not know; none if it cannot be asked."""
    try:
        with asking(site.peer(name)) as connection:
            me = identity.read(connection, partner=True).site_id
            known = select(snapshots.snapshot.c.schema, snapshots.snapshot.c.name)
            has = {str(QualifiedName(*row)) for row in connection.execute(known)}
    except SnaptideError:
        return []
    return [row for row in rows if row.site_id != me or row.snapshot not in has]


def _without_master(connection: Connection, site: Site) -> Iterator[Finding]:
    rows = connection.execute(
        select(snapshots.snapshot, snapshots.refresh_group.c.master)
        .join(snapshots.refresh_group)
        .order_by("schema", snapshots.snapshot.c.name)
    ).all()
    for master in dict.fromkeys(row.master for row in rows):
        theirs = [row for row in rows if row.master == master]
        yield from _missing_at(connection, site, master, theirs)


def _missing_at(
    connection: Connection, site: Site, master: str, rows: list[Row[Any]]
) -> Iterator[Finding]:
    me = identity.read(connection).site_id
    try:
        with asking(site.peer(master)) as home:
            identity.read(home, partner=True)
            logged, registered = _logged(home), _registered(home, me)
            promised = _promised(home, me)
    except SnaptideError as away:
        yield warning(site.name, f"master {master}", away.message, away.hint)
        return
    yield from _without_contract(site.name, rows, promised)
    for row in rows:
        name = str(QualifiedName(row.schema, row.name))
        table = QualifiedName(row.master_schema, row.master_table)
        if table not in logged:
            what = (
                f"{master} has no snapshot log of {table}: fast refresh is not "
                "possible."
            )
            todo = f"snaptide log create {master} {table}"
        elif name not in registered:
            what = (
                f"It is not registered at {master}: a purge may remove log rows that "
                "it needs."
            )
            todo = f"Push its changes, then drop {name} and create it again."
        else:
            continue
        yield error(site.name, name, what, todo)


def _without_contract(
    site: str, rows: Sequence[Row[Any]], promised: Mapping[str, set[str]]
) -> Iterator[Finding]:
    """Findings about snapshots that came into a group after its contract was set."""
    for row in rows:
        name = str(QualifiedName(row.schema, row.name))
        if name not in promised.get(row.refresh_group, {name}):
            yield warning(
                site,
                name,
                f"The contract of refresh group {row.refresh_group} does not have it: "
                "nobody looks how old it is, and the master keeps its log for it.",
                "Set the contract again, with all its limits: snaptide contract set "
                f"{site} {row.refresh_group}",
            )


def _promised(home: Connection, site_id: object) -> dict[str, set[str]]:
    """The snapshots in the contracts of a site, by refresh group."""
    # A master of an older version has no contracts, and a login of a site to which
    # rows are granted may not read them.
    there = func.to_regclass(f"{SCHEMA}.contract")
    if not home.scalar(select(func.has_table_privilege(there, "SELECT"))):
        return {}
    at = contract.c
    found = select(at.refresh_group, at.snapshots).where(at.site_id == site_id)
    return {group: {*names} for group, names in home.execute(found)}


def _logged(home: Connection) -> set[QualifiedName]:
    columns = (snapshot_log.c.table_schema, snapshot_log.c.table_name)
    return {QualifiedName(*row) for row in home.execute(select(*columns))}


def _registered(home: Connection, site_id: object) -> set[str]:
    at = registered_snapshot.c
    return set(home.scalars(select(at.snapshot).where(at.site_id == site_id)))


def _untold(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about former masters that do not know yet that a snapshot left them."""
    left = snapshots.former_master
    for row in connection.execute(select(left).order_by("master", "snapshot")):
        yield warning(
            site,
            f"{row.master}:{row.snapshot}",
            f"It has another master now, but {row.master} could not be told and "
            "still keeps its log for it.",
            f"A refresh tells {row.master} when it is back. If it is lost for good: "
            f"snaptide log unregister {row.master} {site} {row.snapshot} --lost",
        )
