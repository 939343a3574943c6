"""A replication group: its masters, their tables, and the paths between them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table, select

from deferred.options import ErrorAction
from groups import catalog, paths
from groups.errors import CannotReplicate, NoSuchGroup, NoSuchMaster
from groups.paths import Path
from sites import QualifiedName
from sites.sessions.exchange import Answer
from sites.sessions.prepared import Prepared, as_json


class TargetType(StrEnum):
    """How a master treats the changes of the others (Ingres: target type)."""

    #: takes changes and makes changes, which go to the others
    FULL_PEER = "full_peer"
    #: takes changes; its users may make none
    PROTECTED_READ_ONLY = "protected_read_only"
    #: takes changes as they come, without looking for conflicts
    UNPROTECTED_READ_ONLY = "unprotected_read_only"


class Status(StrEnum):
    """Whether users may change a group's tables; set by suspend and resume."""

    NORMAL = "normal"
    #: users are refused, and queues are being emptied
    QUIESCING = "quiescing"
    #: users are refused, and all masters have the same rows
    QUIESCED = "quiesced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """A site that has the tables of a group."""

    name: str
    target_type: TargetType = TargetType.FULL_PEER
    #: False while the rows of the others are copied to it
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A replication group, as one of its masters knows it."""

    name: str
    id: uuid.UUID
    #: the master at which the group is administered
    definition_site: str
    #: one more with each change of this description
    version: int
    status: Status
    status_by: str | None
    status_since: datetime
    masters: tuple[Master, ...]
    tables: tuple[QualifiedName, ...]
    paths: tuple[Path, ...]
    #: how a master treats a transaction that it cannot apply
    error_action: ErrorAction = ErrorAction.QUEUE
    #: one more with each DDL at all masters
    schema_version: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the masters."""
        return tuple(master.name for master in self.masters)

    @property
    def read_only(self) -> frozenset[str]:
        """The masters at which no changes begin."""
        full = TargetType.FULL_PEER
        return frozenset(m.name for m in self.masters if m.target_type is not full)

    @property
    def writing(self) -> frozenset[str]:
        """The masters at which changes begin."""
        return frozenset(self.names) - self.read_only

    @property
    def joining(self) -> frozenset[str]:
        """The masters to which the rows of the others are copied."""
        return frozenset(m.name for m in self.masters if not m.joined)

    def master(self, name: str) -> Master:
        """One of its masters.

        Raises:
            NoSuchMaster: the site is no master of the group.
        """
        for master in self.masters:
            if master.name == name:
                return master
        raise NoSuchMaster(
            f"{name} is not a master of group {self.name}.",
            group=self.name,
            master=name,
        )

    def routes(self, here: str) -> dict[str, list[str]]:
        """By destination, masters whose changes go there from here; '' means here."""
        found: dict[str, list[str]] = {}
        for path in self.paths:
            if path.local == here:
                source = "" if path.source == here else path.source
                found.setdefault(path.target, []).append(source)
        return found


def find(connection: Connection, name: str) -> Group | None:
    """A group as this master knows it; None if it is no master of it."""
    return _found(_BY_NAME.run(connection, its_name=name))


def find_by_id(connection: Connection, id_: uuid.UUID) -> Group | None:
    """A group as this master knows it, whatever its name is."""
    return _found(_BY_ID.run(connection, its_id=id_))


def name_of(connection: Connection, id_: uuid.UUID) -> str:
    """The name of a group, for messages; its id if this site is no master of it."""
    head = catalog.replication_group.c
    name = connection.scalar(select(head.name).where(head.id == id_))
    return name or str(id_)


def _found(answer: Answer) -> Group | None:
    row = answer.one_or_none()
    if row is None:
        return None
    return Group(
        **{c.name: row._mapping[c.name] for c in catalog.replication_group.columns}
        | {"status": Status(row.status), "error_action": ErrorAction(row.error_action)},
        masters=tuple(
            Master(
                name=m["master"],
                target_type=TargetType(m["target_type"]),
                joined=m["joined"],
            )
            for m in row.masters or ()
        ),
        tables=tuple(
            QualifiedName(t["table_schema"], t["table_name"]) for t in row.tables or ()
        ),
        paths=tuple(
            Path(source=p["source"], local=p["from_master"], target=p["to_master"])
            for p in row.paths or ()
        ),
    )


def get(connection: Connection, site: str, name: str) -> Group:
    """A group as this master knows it.

    Raises:
        NoSuchGroup: the site is no master of a group of that name.
    """
    found = find(connection, name)
    if found is None:
        raise NoSuchGroup(f"{site} has no replication group {name}.", group=name)
    return found


def names(
    connection: Connection, *, limit: int | None = None, offset: int = 0
) -> list[str]:
    """The groups that this site is a master of, by name."""
    head = catalog.replication_group
    wanted = select(head.c.name).order_by(head.c.name).limit(limit).offset(offset)
    return list(connection.scalars(wanted))


def count(connection: Connection) -> int:
    """How many groups this site is a master of."""
    counted = select(sa.func.count()).select_from(catalog.replication_group)
    return connection.scalar(counted) or 0


def group_of(connection: Connection, table: QualifiedName) -> str | None:
    """The group that a table of this master belongs to."""
    known = catalog.group_table.c
    return connection.scalar(
        select(catalog.replication_group.c.name)
        .join(catalog.group_table)
        .where(known.table_schema == table.schema, known.table_name == table.name)
    )


def store(connection: Connection, group: Group) -> None:
    """Store the description of a group at this master."""
    forget(connection, group.id)
    head = {c.name: getattr(group, c.name) for c in catalog.replication_group.columns}
    connection.execute(sa.insert(catalog.replication_group).values(**head))
    _insert(
        connection,
        catalog.group_master,
        [
            {
                "group_id": group.id,
                "master": m.name,
                "target_type": m.target_type,
                "joined": m.joined,
            }
            for m in group.masters
        ],
    )
    _insert(
        connection,
        catalog.group_table,
        [
            {"group_id": group.id, "table_schema": t.schema, "table_name": t.name}
            for t in group.tables
        ],
    )
    _insert(
        connection,
        catalog.group_path,
        [
            {
                "group_id": group.id,
                "source": p.source,
                "from_master": p.local,
                "to_master": p.target,
            }
            for p in group.paths
        ],
    )


def forget(connection: Connection, id_: uuid.UUID) -> None:
    """Delete the description of a group at this master."""
    head = catalog.replication_group
    connection.execute(sa.delete(head).where(head.c.id == id_))


def refuse_definition_site(group: Group, master: str) -> None:
    """Refuse to take the master definition site out of its group.

    Raises:
        CannotReplicate.
    """
    if master == group.definition_site:
        raise CannotReplicate(
            f"{master} is the master definition site of {group.name}.", master=master
        )


def is_sent_on(group: Group, master: str) -> bool:
    """Whether other masters send on changes that began at this one."""
    return any(path.source == master != path.local for path in group.paths)


def without_master(group: Group, master: str) -> Group:
    """The group without a master; what it sent on comes directly from then on."""
    return changed(
        group,
        masters=tuple(one for one in group.masters if one.name != master),
        paths=paths.without(group.paths, master),
    )


def with_master(group: Group, new: Master, via: str | None) -> Group:
    """The group with one more master, and the paths to and from it.

    Parameters:
        via: the one master that it exchanges changes with; None for each directly.

    Raises:
        NoSuchMaster: `via` is no master of the group.
        BadPaths: `via` is read-only, or joining itself.
    """
    if via is not None:
        group.master(via)
    after = changed(group, masters=(*group.masters, new))
    joined = paths.joined(
        group.paths, group.names, new.name, via, read_only=after.read_only
    )
    paths.check(after.names, joined, after.read_only, after.joining)
    return replace(after, paths=joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAdded(Group):
    """A group as it is with one more table."""

    #: by master, users' triggers of the table, which fire for changes of others too
    triggers: Mapping[str, tuple[str, ...]]


def changed(group: Group, **values: Any) -> Group:
    """The group with other values, and the next version."""
    return replace(group, **values, version=group.version + 1)


def _insert(
    connection: Connection, table: Table, rows: list[dict[str, object]]
) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def _whole(which: ColumnElement[bool]) -> Prepared:
    """Asks for a group with all that belongs to it."""
    head = catalog.replication_group

    def of(table: Table, name: str, *order: str) -> ColumnElement[Any]:
        mine = select(table).where(table.c.group_id == head.c.id).correlate(head)
        return as_json(mine.order_by(*order), name)

    return Prepared(
        select(
            head,
            of(catalog.group_master, "masters", "master"),
            of(catalog.group_table, "tables", "table_schema", "table_name"),
            of(catalog.group_path, "paths", "source", "to_master"),
        ).where(which)
    )


_BY_NAME = _whole(
    catalog.replication_group.c.name == sa.bindparam("its_name", type_=sa.Text)
)
_BY_ID = _whole(catalog.replication_group.c.id == sa.bindparam("its_id", type_=sa.Uuid))
