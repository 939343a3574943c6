"""The snapshots that a file wants, as their masters understand it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from sqlalchemy import Connection

from sites import QualifiedName, Site, names
from sites.conditions import where
from sites.tables import ddl, type_statements
from sites.tables.table import Table, describe
from sites.tables.type_statements import TypeStatement
from snapshots import Leaving
from snapshots.definitions.definition import choose
from snapshots.definitions.errors import NeedsParent
from snapshots.definitions.follow import Followed, compose, reference
from snapshots.definitions.numbered import numbered
from snaptide.plan.document import Document, SnapshotSection
from snaptide.plan.found import Found, FoundSnapshot
from snaptide.plan.reader import SiteFile
from snaptide.plan.source import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A snapshot that a file wants, as its master understands it."""

    name: QualifiedName
    path: Path
    group: str
    #: name of the master
    home: str
    table: Table
    #: as the file has it
    section: SnapshotSection
    columns: tuple[str, ...]
    #: as the master prints it
    condition: str | None
    #: the condition that the site has, if it becomes this one by itself, since the
    #: snapshots that it follows are altered
    taken_along: str | None
    #: the other tables that the condition asks
    asks: tuple[QualifiedName, ...]
    #: by column, how it gets numbers, also those that the file does not name
    drawn: Mapping[str, str]
    types: tuple[TypeStatement, ...]

    @property
    def key(self) -> str:
        """Its name, as text."""
        return str(self.name)

    @property
    def master(self) -> QualifiedName:
        """The table that it is a snapshot of."""
        return self.table.qualified


def wanted_by(file: SiteFile, site: Site, found: Found) -> list[Wanted]:
    """The snapshots that a file wants, each after those that it needs.

    Raises:
        BadSiteFile: a master refuses a part; the message names its place in the file.
    """
    with ExitStack() as opened:
        resolver = _Resolver(file, site, found, opened)
        return _in_order([resolver.wanted(name) for name in file.document.snapshots])


class _Resolver:
    """Asks the masters what the parts of a file mean."""

    def __init__(
        self, file: SiteFile, site: Site, found: Found, opened: ExitStack
    ) -> None:
        self._file = file
        self._site = site
        self._found = found
        self._opened = opened
        self._connections: dict[str, Connection] = {}
        self._made: dict[str, Wanted] = {}
        self._begun: list[str] = []

    def wanted(self, name: str) -> Wanted:
        """The snapshot of that name in the file, after those that it follows."""
        if name in self._made:
            return self._made[name]
        section = self._file.document.snapshots[name]
        path: Path = ("snapshots", name)
        if name in self._begun:
            circle = " -> ".join([*self._begun[self._begun.index(name) :], name])
            raise self._file.source.error(
                (*path, "follow"), f"it would follow itself: {circle}"
            )
        self._begun.append(name)
        self._made[name] = self._resolved(name, section, path)
        self._begun.pop()
        return self._made[name]

    def _resolved(self, name: str, section: SnapshotSection, path: Path) -> Wanted:
        document = self._file.document
        group = section.group or next(iter(document.groups))
        home = document.groups[group].master
        connection = self._connection(group, home)
        source = names.parse(section.table or name)
        place = (*path, "table") if section.table else path
        with self._file.source.naming(place):
            table = describe(connection, source)
        with self._file.source.naming((*path, "columns")):
            needs = ddl.default_needs(connection, table)
            columns, _ = choose(table, section.columns, needs, section.updatable)
        with self._file.source.naming((*path, "numbers")):
            drawn = numbered(
                connection, table, columns, section.numbers, section.updatable
            )
        with self._file.source.naming((*path, "leaving")):
            Leaving.named(section.leaving, updatable=section.updatable)
        condition, asks = self._condition(connection, table, section, group, path)
        return Wanted(
            name=names.parse(name),
            path=path,
            group=group,
            home=home,
            table=table,
            section=section,
            columns=columns,
            condition=condition,
            taken_along=self._taken_along(connection, table, name, section),
            asks=asks,
            drawn=drawn.methods,
            types=tuple(type_statements.of_columns(connection, table, columns)),
        )

    def _condition(
        self,
        connection: Connection,
        table: Table,
        section: SnapshotSection,
        group: str,
        path: Path,
    ) -> tuple[str | None, tuple[QualifiedName, ...]]:
        with self._file.source.naming((*path, "follow")):
            members = self._followed(table, section, group)
            own = compose(table, group, members, section.follow, None)
        text = own
        if section.where is not None:
            with self._file.source.naming((*path, "where")):
                where.canonical(connection, table.qualified, section.where)
            text = compose(table, group, members, section.follow, section.where)
        if text is None:
            return None, ()
        with self._file.source.naming(
            (*path, "where") if section.where else (*path, "follow")
        ):
            printed = where.canonical(connection, table.qualified, text)
        return printed.text, tuple(one.table for one in printed.parts.every())

    def _taken_along(
        self, connection: Connection, table: Table, name: str, section: SnapshotSection
    ) -> str | None:
        """The condition of the site's snapshot, if it differs in its parents' only."""
        there = self._found.snapshots.get(names.parse(name))
        if there is None or not section.follow:
            return None
        group = there.described.group
        members = [
            one
            for one in self._found.snapshots.values()
            if one.described.group == group
        ]
        try:
            text = compose(table, group, members, section.follow, section.where)
        except NeedsParent:
            return None
        assert text is not None
        printed = where.canonical(connection, table.qualified, text).text
        return printed if printed == there.condition else None

    def _followed(
        self, table: Table, section: SnapshotSection, group: str
    ) -> list[Followed]:
        """The snapshots that a file or the site has of the tables to be followed."""
        parents = {reference(table, name).parent for name in section.follow}
        members: list[Followed] = [
            self.wanted(name)
            for name, one in self._file.document.snapshots.items()
            if (one.group or group) == group
            and names.parse(one.table or name) in parents
        ]
        named = {names.parse(name) for name in self._file.document.snapshots}
        others = (
            one
            for name, one in self._found.snapshots.items()
            if name not in named and one.described.group == group
        )
        return [*members, *others]

    def _connection(self, group: str, home: str) -> Connection:
        if home not in self._connections:
            with self._file.source.naming(("groups", group, "master")):
                master = self._site.peer(home)
            opened = self._opened.enter_context(master.session())
            self._connections[home] = opened
        return self._connections[home]


def _in_order(wanted: Sequence[Wanted]) -> list[Wanted]:
    """Snapshots, each after those whose tables its condition or foreign keys need."""
    ordered: list[Wanted] = []
    begun: set[QualifiedName] = set()

    def visit(one: Wanted) -> None:
        if one.name in begun:
            return
        begun.add(one.name)
        needs = {*one.asks, *(key.parent for key in one.table.foreign_keys)}
        for other in wanted:
            if other.group == one.group and other.master in needs:
                visit(other)
        ordered.append(one)

    for one in wanted:
        visit(one)
    return ordered


def children_first(
    members: Mapping[QualifiedName, FoundSnapshot],
) -> list[QualifiedName]:
    """The snapshots of a site, each before those that its condition asks."""
    ordered: list[QualifiedName] = []

    def visit(name: QualifiedName) -> None:
        if name in ordered:
            return
        one = members[name]
        for other, them in members.items():
            asked = {asks.table for asks in them.described.asks}
            if other != name and one.described.table in asked:
                visit(other)
        ordered.append(name)

    for name in members:
        visit(name)
    return ordered


def home_of(document: Document, table: QualifiedName) -> str | None:
    """The site that has a table: the file's, its snapshots' master, or the only one."""
    groups = document.groups
    if table in document.published:
        return document.site.name
    homes = {
        groups[one.group or next(iter(groups))].master
        for name, one in document.snapshots.items()
        if names.parse(one.table or name) == table
    } or {one.master for one in groups.values()}
    homes = homes or {document.site.name}
    return next(iter(homes)) if len(homes) == 1 else None
