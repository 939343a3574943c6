"""What a site has of all that a file may describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection, select, text

import deferred
import masters
import snapshots
from deferred import schedules
from deferred.queues.backlog import Backlog
from deferred.schedules import Schedule
from masters import Publication
from masters.numbers import columns
from sites import QualifiedName, Site, names
from sites.sessions import revisions
from snapshots import catalog
from snapshots.reports import SnapshotDescription

#: What the roles may do with a relation: role, privilege, and whether to pass it on.
_GRANTED = text("""
SELECT CASE WHEN a.grantee = 0 THEN 'public' ELSE pg_get_userbyid(a.grantee) END,
       a.privilege_type, a.is_grantable
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN aclexplode(c.relacl) a
WHERE n.nspname = :schema AND c.relname = :name AND a.grantee <> c.relowner
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGroup:
    """A refresh group of the site."""

    master: str
    synchronous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSnapshot:
    """A snapshot of the site."""

    described: SnapshotDescription
    #: it is not loaded, or its condition was changed since its last refresh
    due: bool
    #: by column, how it gets numbers
    numbers: Mapping[str, str]
    #: by role, what it may do
    grants: Mapping[str, frozenset[str]]

    @property
    def key(self) -> str:
        """Its name."""
        return self.described.name

    @property
    def master(self) -> QualifiedName:
        """The table that it is a snapshot of."""
        return names.parse(self.described.table)

    @property
    def condition(self) -> str | None:
        """Which rows it has; None for all."""
        return self.described.condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that a site has."""

    #: the revision of the schema snaptide; None if there is none
    revision: str | None = None
    groups: Mapping[str, FoundGroup] = field(default_factory=dict)
    snapshots: Mapping[QualifiedName, FoundSnapshot] = field(default_factory=dict)
    schedules: tuple[Schedule, ...] = ()
    destinations: Mapping[str, Backlog] = field(default_factory=dict)
    publications: tuple[Publication, ...] = ()


def found_at(site: Site) -> Found:
    """Read all that a site has of what a file may describe.

    Raises:
        OlderSchema, NewerSchema: its schema is that of another version of Snaptide.
    """
    revision = revision_of(site)
    if revision is None:
        return Found()
    described = snapshots.list_snapshots(site)
    with site.session() as connection:
        groups = {
            row.name: FoundGroup(master=row.master, synchronous=row.synchronous)
            for row in connection.execute(select(catalog.refresh_group))
        }
        due = _due(connection)
        numbers = _numbers(connection)
        members = {
            names.parse(one.name): FoundSnapshot(
                described=one,
                due=names.parse(one.name) in due,
                numbers=numbers.get(one.name, {}),
                grants=_grants(connection, names.parse(one.name)),
            )
            for one in described
        }
    return Found(
        revision=revision,
        groups=groups,
        snapshots=members,
        schedules=tuple(schedules.list_schedules(site)),
        destinations={o.destination: o for o in deferred.list_destinations(site)},
        publications=tuple(masters.list_publications(site)),
    )


def revision_of(site: Site) -> str | None:
    """The revision of a site's schema snaptide; None if it has none.

    Raises:
        OlderSchema, NewerSchema: it is that of another version of Snaptide.
    """
    with site.session() as connection:
        revision = revisions.of_site(connection)
    if revision is not None:
        revisions.refuse_other(site.name, revision)
    return revision


def may_read(master: Site, table: str) -> bool:
    """Whether our user may read a table of ours at a master.

    The login of a publication may not read contracts and rules.
    """
    with master.session() as connection:
        may = sa.func.has_table_privilege(table, "SELECT")
        return bool(connection.scalar(select(may)))


def _due(connection: Connection) -> set[QualifiedName]:
    """The snapshots whose next refresh compares all rows, since nothing is known."""
    at = catalog.snapshot.c
    rows = select(at.schema, at.name).where(
        sa.or_(~at.loaded, at.master_parts.is_(None))
    )
    return {QualifiedName(*row) for row in connection.execute(rows)}


def _numbers(connection: Connection) -> dict[str, dict[str, str]]:
    """By snapshot and column, how it gets numbers."""
    found: dict[str, dict[str, str]] = {}
    for one in columns.all_of(connection):
        found.setdefault(one.snapshot, {})[one.column_name] = one.method
    return found


def _grants(connection: Connection, name: QualifiedName) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    asked = {"schema": name.schema, "name": name.name}
    for role, privilege, _ in connection.execute(_GRANTED, asked):
        found.setdefault(role, set()).add(privilege)
    return {role: frozenset(rights) for role, rights in sorted(found.items())}
