"""A snapshot as the catalog of its site describes it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, select

from deferred.queues.queue import extra_keys
from masters.group_schema import SchemaVersion
from sites import names
from sites.catalog import SCHEMA
from sites.conditions import subqueries
from sites.conditions.subqueries import Parts
from sites.names import QualifiedName, numbered
from sites.sessions.prepared import Prepared, as_json
from sites.tables.table import Table, with_tuples
from sites.transfer.types import NativeType
from sites.transfer.values import unsized
from snapshots import catalog
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.definitions.policy import Leaving

#: The catalog's values for a snapshot that shows the moment of its group.
NOT_BEHIND: Mapping[str, None] = {"behind": None, "position": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Why the last refresh left a snapshot behind its group, at its own moment.

    It cannot be refreshed, or depends on one that cannot. It keeps its rows and the
    position that they belong to, here and in its registration at the master: so the
    logs keep what it needs, and the refresh that takes it along again follows from
    there.
    """

    code: str
    why: str
    hint: str
    #: the snapshot that cannot be refreshed, if this one only depends on it
    depends_on: str | None = None

    def __str__(self) -> str:
        """In one line, without the hint."""
        if self.depends_on is None:
            return f"{self.code} {self.why}"
        return f"it depends on {self.depends_on}: {self.code} {self.why}"

    @classmethod
    def of(cls, noted: Mapping[str, Any] | None) -> Behind | None:
        """What the catalog notes of a snapshot."""
        return None if noted is None else cls(**noted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot: its columns and rows of a master table, and how it is kept."""

    schema: str
    name: str
    refresh_group: str
    base_table: str
    extra_table: str
    log_view: str
    master_schema: str
    master_table: str
    #: all columns that users see
    columns: tuple[str, ...]
    identity_columns: tuple[str, ...]
    #: as the master's catalog prints it; None for all rows
    condition: str | None
    updatable: bool
    #: what becomes of rows that leave the condition
    leaving: Leaving
    loaded: bool
    #: the tables that held the master's rows at the last refresh; None if unknown
    master_parts: tuple[int, ...] | None = None
    #: files and columns of the master table at that time, see
    #: `snapshots.definitions.rewrites`
    master_files: tuple[int, ...] | None = None
    master_columns: tuple[str, ...] | None = None
    #: the same for the other tables that the condition asks
    #: (`snapshots.definitions.parents`), and the functions that it calls
    parents: Mapping[str, Any] | None = None
    #: the id of the master table's group at that time, and the version of its schema
    schema_group: uuid.UUID | None = None
    schema_version: int | None = None
    #: the numbers of its columns in the base table; None if these are 1, 2, ...
    column_numbers: tuple[int, ...] | None = None
    #: the DDL of the master that its columns have followed, by id
    #: (`masters.log.site_ddl`)
    ddl_followed: tuple[str, ...] = ()
    #: the facts of `Behind`; None if the last refresh did not leave it behind
    behind: Mapping[str, Any] | None = None
    #: the moment of the master that it shows, if it is not the group's
    position: str | None = None
    #: the image that its first rows are from; None if a refresh has brought them
    image: uuid.UUID | None = None
    #: how it was filled or refreshed last
    last_method: str | None = None

    @property
    def qualified(self) -> QualifiedName:
        """Schema and name of the user view."""
        return QualifiedName(self.schema, self.name)

    @property
    def key(self) -> str:
        """The name by which queue, registration and reports know it."""
        return str(self.qualified)

    @property
    def base(self) -> QualifiedName:
        """The table below the user view."""
        return QualifiedName(self.schema, self.base_table)

    @property
    def master(self) -> QualifiedName:
        """The table that it is a snapshot of."""
        return QualifiedName(self.master_schema, self.master_table)

    @property
    def parts(self) -> Parts:
        """What its condition asks of the row itself, and of other tables."""
        return subqueries.parts(self.condition, self.master)

    @property
    def asked(self) -> Mapping[QualifiedName, frozenset[str]]:
        """The other tables that its condition asks, and their columns in it."""
        return {} if self.condition is None else _asked(self.parts)

    @property
    def seen(self) -> SchemaVersion | None:
        """Which shape the master table had at the last refresh; None if in no group."""
        if self.schema_group is None or self.schema_version is None:
            return None
        return SchemaVersion(group_id=self.schema_group, version=self.schema_version)

    @property
    def key_names(self) -> tuple[str, ...]:
        """How logs and key tables number the identity columns: k1, k2, ..."""
        return numbered("k", self.identity_columns)

    def extra(self) -> sa.TableClause:
        """The table of extra keys, for use in statements."""
        return extra_keys(self.extra_table, self.identity_columns)

    def logged_keys(self) -> sa.Select[Any]:
        """Keys that a refresh must look at again because of the site's own log."""
        view = sa.table(self.log_view, *map(sa.column, self.key_names), schema=SCHEMA)
        return sa.select(*(view.c[name] for name in self.key_names)).distinct()


def holds_keys(log_view: str) -> sa.ColumnElement[bool]:
    """Whether an updatable snapshot log has keys that a refresh is to look at."""
    return sa.exists().select_from(sa.table(log_view, schema=SCHEMA))


@lru_cache(maxsize=1024)
def _asked(parts: Parts) -> Mapping[QualifiedName, frozenset[str]]:
    found: dict[QualifiedName, frozenset[str]] = {}
    for one in parts.every():
        within = frozenset(c for inner in one.subqueries for c in inner.columns)
        found[one.table] = found.get(one.table, frozenset()) | one.uses | within
    return found


def tables_of(members: Sequence[Snapshot]) -> list[QualifiedName]:
    """The tables of the master that decide what snapshots hold, each once."""
    others = (name for member in members for name in member.asked)
    return [*dict.fromkeys([*(member.master for member in members), *others])]


def carried(snapshot: Snapshot, base: Table) -> tuple[str, ...]:
    """The columns whose values come from the master; generated ones do not."""
    return tuple(c for c in snapshot.columns if not base.column(c).generated)


def key_types(table: Table, key: Sequence[str]) -> list[NativeType]:
    """The types in which keys are looked up, in the order of the key's columns.

    Without lengths and domains: a longer key would be cut, and find another row.
    """
    columns = map(table.column, key)
    return [NativeType(unsized(c.recorded), c.equality) for c in columns]


def find(connection: Connection, name: QualifiedName) -> Snapshot | None:
    """The snapshot of that name, or None."""
    row = connection.execute(_SELECT.where(named(name))).one_or_none()
    return None if row is None else _of(row._mapping)


def read(connection: Connection, name: str) -> Snapshot:
    """The snapshot that a user calls by this name.

    Raises:
        UnknownSnapshot: the site has none of that name.
    """
    found = find(connection, names.parse(name))
    if found is None:
        raise UnknownSnapshot(f"There is no snapshot {name}.", snapshot=name)
    return found


def members(connection: Connection, group: str) -> list[Snapshot]:
    """The snapshots of a refresh group, by name."""
    rows = _OF_GROUP.run(connection, its_group=group)
    return [_of(row._mapping) for row in rows]


def of(found: Sequence[Mapping[str, Any]] | None) -> tuple[Snapshot, ...]:
    """The snapshots in the column `MEMBERS` of a row."""
    return tuple(_of({**row, **_ids(row)}) for row in found or ())


def _ids(row: Mapping[str, Any]) -> dict[str, uuid.UUID | None]:
    names = ("schema_group", "image")
    return {name: row[name] and uuid.UUID(row[name]) for name in names}


def all_of(connection: Connection) -> list[Snapshot]:
    """All snapshots of a site, by name."""
    return [_of(row._mapping) for row in connection.execute(_SELECT)]


def named(name: QualifiedName | Snapshot) -> sa.ColumnElement[bool]:
    """Whether a row of the catalog is that of a snapshot."""
    at = catalog.snapshot.c
    return sa.and_(at.schema == name.schema, at.name == name.name)


def change(one: QualifiedName | Snapshot) -> sa.Update:
    """The statement that changes what the catalog says of a snapshot."""
    return sa.update(catalog.snapshot).where(named(one))


def redefine(one: Snapshot) -> sa.Update:
    """The same for a change of its columns or rows.

    If an image has filled a part of it, that has other ones: the load begins anew.
    """
    at = catalog.snapshot.c
    return change(one).values(image=sa.case((at.loaded, at.image)))


def refreshed(group: str, method: str) -> sa.Update:
    """A statement that notes that all snapshots of a group were refreshed just now."""
    return (
        sa.update(catalog.snapshot)
        .where(catalog.snapshot.c.refresh_group == group)
        .values(last_method=method, last_refresh=sa.func.clock_timestamp())
    )


_SELECT = select(
    *(catalog.snapshot.c[name] for name in Snapshot.__slots__ if name != "position"),
    sa.cast(catalog.snapshot.c.position, sa.Text).label("position"),
).order_by(catalog.snapshot.c.schema, catalog.snapshot.c.name)


_MEMBERS = _SELECT.where(
    catalog.snapshot.c.refresh_group == sa.bindparam("its_group", type_=sa.Text)
)

_OF_GROUP = Prepared(_MEMBERS)
#: The snapshots of the group that is called `its_group`, for statements that read more.
MEMBERS = as_json(_MEMBERS, "members")


def _of(row: Mapping[Any, Any]) -> Snapshot:
    return Snapshot(**with_tuples(row) | {"leaving": Leaving(row["leaving"])})
