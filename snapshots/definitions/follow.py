"""Conditions that let a snapshot follow others: the rows whose parents are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from sites.conditions.subqueries import Subquery
from sites.names import QualifiedName, quoted
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import named_key
from sites.tables.named_key import NotOneKey
from sites.tables.table import ForeignKey, Table, describe
from snapshots.definitions.errors import (
    NeedsParent,
    NoSuchReference,
    SeveralParents,
)
from snapshots.definitions.snapshot import Snapshot


class Followed(Protocol):
    """A snapshot that others follow, or that is to be made."""

    @property
    def key(self) -> str:
        """Its name."""

    @property
    def master(self) -> QualifiedName:
        """The table that it is a snapshot of."""

    @property
    def condition(self) -> str | None:
        """Which rows it has; None for all."""


def composed(
    master: Site,
    table: QualifiedName,
    group: str,
    members: Sequence[Followed],
    named: Sequence[str],
    where: str | None,
) -> str | None:
    """The condition on a master table, with the parents that a snapshot follows.

    Parameters:
        group: the refresh group, which has snapshots of the parents.
        members: the snapshots of the group.
        named: foreign keys of the table: by the parent's name, or by a column or
            the name of the constraint where there are several to that parent.
        where: what else is asked of a row.

    Raises:
        NoSuchReference: the master has no such foreign key, or more than one.
        NeedsParent: the group has no snapshot of the parent.
        SeveralParents: it has several with other rows each, and none of them is called
            like the table.
    """
    if not named:
        return where
    with master.session() as connection:
        identity.confirm(connection, master.name)
        described = describe(connection, table)
    return compose(described, group, members, named, where)


def compose(
    table: Table,
    group: str,
    members: Sequence[Followed],
    named: Sequence[str],
    where: str | None,
) -> str | None:
    """The condition on a master table whose rows follow snapshots of a group.

    Parameters:
        group, members, named, where: as `composed` takes them.

    Raises:
        NoSuchReference, NeedsParent, SeveralParents.
    """
    parts = [
        exists(
            table.qualified,
            zip(key.columns, key.parent_columns, strict=True),
            _parent(key, members, group),
        )
        for key in (reference(table, name) for name in named)
    ]
    if not parts:
        return where
    return " AND ".join([*parts, *([f"({where}\n)"] if where else [])])


def reference(table: Table, name: str) -> ForeignKey:
    """The foreign key that a user names: by its parent, a column, or its own name.

    Raises:
        NoSuchReference: the table has no such foreign key, or more than one.
    """
    try:
        return named_key.named(table, name)
    except NotOneKey as error:
        raise NoSuchReference(str(error), table=str(table.qualified)) from None


def _parent(key: ForeignKey, members: Sequence[Followed], group: str) -> Followed:
    found = [one for one in members if one.master == key.parent]
    if not found:
        raise NeedsParent(
            f"Refresh group {group} has no snapshot of {key.parent} to follow.",
            table=str(key.parent),
        )
    called_so = [one for one in found if one.key == str(key.parent)]
    if not called_so and len({one.condition for one in found}) > 1:
        named = " and ".join(sorted(one.key for one in found))
        raise SeveralParents(
            f"{named} are snapshots of {key.parent} in refresh group {group}, with "
            "other rows each: which one to follow is not said.",
            table=str(key.parent),
        )
    return (called_so or found)[0]


def following(child: Snapshot, parent: Snapshot) -> list[Subquery]:
    """The subqueries of a condition that ask just what a parent's condition does."""
    if child.key == parent.key:
        return []
    same = parent.parts.shape
    asks = child.parts.subqueries
    return [one for one in asks if one.table == parent.master and one.shape == same]


def exists(
    table: QualifiedName, pairs: Iterable[tuple[str, str]], parent: Followed
) -> str:
    """The part of a condition that asks for a parent as its own snapshot does.

    Parameters:
        pairs: columns of the table, each with the one of the parent that equals it.
    """
    schema, name = quoted(parent.master.schema), quoted(parent.master.name)
    same = " AND ".join(
        f"{name}.{quoted(theirs)} = {quoted(table.name)}.{quoted(mine)}"
        for mine, theirs in pairs
    )
    asked = f" AND ({parent.condition})" if parent.condition else ""
    return f"EXISTS (SELECT FROM {schema}.{name} {name} WHERE {same}{asked})"
