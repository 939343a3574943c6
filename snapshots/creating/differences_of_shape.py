"""What master tables and their snapshots have different, beside the rows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from psycopg import sql
from sqlalchemy import Connection

from deferred.queues.queue import find_queue
from masters.numbers import columns as numbered_columns
from sites.names import identifier, quoted
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import ddl, indexes
from sites.tables.ddl import DefaultNeeds
from sites.tables.indexes import Index
from sites.tables.table import Column, Table, Unique, describe
from snapshots.creating import columns_widened
from snapshots.definitions import refresh_group, rewrites, snapshot
from snapshots.definitions.snapshot import Snapshot
from snapshots.reports import ShapeDifference


def list_shape_differences(
    site: Site, name: str | None = None
) -> list[ShapeDifference]:
    """List what master tables have otherwise than their snapshots at a site.

    Columns that were added, dropped or renamed at the master, and types, defaults, NOT
    NULL, unique keys and indexes of those that both have, each with what settles it.
    A column is the same as long as it has its number, whatever its name is.

    Parameters:
        name: only of this snapshot.

    Raises:
        UnknownSnapshot: there is none of that name.
        SiteUnreachable, SiteChanged: a master is away, or another database.
        UnknownTable: a master table, or a base table, is gone.
    """
    with site.session() as connection:
        identity.confirm(connection, site.name)
        known = snapshot.all_of(connection)
        chosen = known if name is None else [snapshot.read(connection, name)]
        masters = {one.key: _master(connection, one) for one in chosen}
        found: list[ShapeDifference] = []
        for master, held in groupby(
            sorted(chosen, key=lambda one: masters[one.key]),
            key=lambda one: masters[one.key],
        ):
            with site.peer(master).session() as home:
                identity.confirm(home, master)
                for one in held:
                    found += _Pair.of(connection, home, site.name, one).differences()
    return sorted(found, key=lambda one: one.snapshot)


def _master(connection: Connection, one: Snapshot) -> str:
    group = refresh_group.find(connection, one.refresh_group)
    assert group is not None
    return group.master


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """A snapshot and its master table, as the two databases describe them."""

    site: str
    snapshot: Snapshot
    table: Table
    base: Table
    needs: Mapping[int, DefaultNeeds]
    indexes: Sequence[Index]
    indexes_here: Sequence[Index]
    #: columns whose numbers the site draws
    numbered: frozenset[str]
    #: columns here that can get the wider type of the master's
    widened: frozenset[str] = frozenset()

    @classmethod
    def of(cls, here: Connection, home: Connection, site: str, one: Snapshot) -> _Pair:
        """Read both descriptions."""
        table, base = describe(home, one.master), describe(here, one.base)
        drawn = numbered_columns.all_of(here, snapshot=one.key)
        pair = cls(
            site=site,
            snapshot=one,
            table=table,
            base=base,
            needs=ddl.default_needs(home, table),
            indexes=indexes.secondary(home, table),
            indexes_here=indexes.secondary(here, base),
            numbered=frozenset(column.column_name for column in drawn),
        )
        queue = find_queue(here, one.key)
        widened = frozenset(
            mine.name
            for theirs, mine in pair.pairs
            if columns_widened.why_not(here, one, base, mine, theirs, queue) is None
        )
        return replace(pair, widened=widened - pair.numbered)

    @cached_property
    def there(self) -> dict[str, Column | None]:
        """The master's column of each of the snapshot's; None if it is gone."""
        before = rewrites.columns_before(self.snapshot)
        by_number = {column.number: column for column in self.table.columns}
        by_name = {column.name: column for column in self.table.columns}
        return {
            name: by_name.get(name)
            if before is None
            else by_number.get(rewrites.number(before[name]))
            for name in self.snapshot.columns
        }

    @cached_property
    def pairs(self) -> list[tuple[Column, Column]]:
        """Each column that both have: the master's, and the site's."""
        return [
            (theirs, self.base.column(name))
            for name, theirs in self.there.items()
            if theirs is not None and name in self.base.names
        ]

    def differences(self) -> Iterator[ShapeDifference]:
        """All that differs."""
        yield from self._names()
        yield from self._added()
        for theirs, mine in self.pairs:
            yield from self._column(theirs, mine)
        yield from self._uniques()
        yield from self._indexes()

    def _names(self) -> Iterator[ShapeDifference]:
        renamed = {
            name: theirs.name
            for name, theirs in self.there.items()
            if theirs is not None and theirs.name != name
        }
        gone = [name for name, theirs in self.there.items() if theirs is None]
        options = [f"--rename {_word(a)}={_word(b)}" for a, b in renamed.items()]
        options += [f"--drop-column {_word(name)}" for name in gone]
        # Neither can be done before the other.
        todo = self._alter(*options)
        for name, now in renamed.items():
            yield self._found(f"column {name}", f"is called {now} at the master", todo)
        for name in gone:
            yield self._found(f"column {name}", "is gone at the master", todo)

    def _added(self) -> Iterator[ShapeDifference]:
        known = {theirs.number for theirs in self.there.values() if theirs is not None}
        for column in self.table.columns:
            if column.number not in known and column.generated != "v":
                yield self._found(
                    f"column {column.name}",
                    f"is at the master alone: {column.type}",
                    self._alter(f"--add-column {_word(column.name)}"),
                )

    def _column(self, theirs: Column, mine: Column) -> Iterator[ShapeDifference]:
        named = f"column {mine.name}"
        if theirs.type != mine.type:
            again = "Push, drop the snapshot and create it again."
            name = _word(mine.name)
            steps = [f"--drop-column {name}", f"--add-column {_word(theirs.name)}"]
            if mine.name in self.widened:
                # If it is to be renamed, that comes first.
                steps = [f"--widen {_word(theirs.name)}"]
            is_key = mine.name in self.snapshot.identity_columns
            yield self._found(
                named,
                f"is {theirs.type} at the master, and {mine.type} here",
                again if is_key else self._alter(*steps),
            )
        elif self._default(theirs) != mine.default and not self._is_apart(theirs, mine):
            default = self._default(theirs)
            yield self._found(
                named,
                f"has the default {theirs.default or 'NULL'} at the master, and "
                f"{mine.default or 'NULL'} here",
                self._of_base(
                    "ALTER {} DROP DEFAULT"
                    if default is None
                    else "ALTER {} SET DEFAULT ",
                    mine.name,
                    after=default or "",
                ),
            )
        there, here = theirs.holds_null, mine.holds_null
        if there != here and not theirs.generated:
            yield self._found(
                named,
                f"{'takes' if there else 'refuses'} NULL at the master, and "
                f"{'takes' if here else 'refuses'} it here",
                self._of_base(
                    f"ALTER {{}} {'DROP' if there else 'SET'} NOT NULL",
                    mine.name,
                ),
            )

    def _default(self, column: Column) -> str | None:
        """The master's default, if a site can use it."""
        needs = self.needs.get(column.number)
        return None if needs is None or needs.foreign else column.default

    def _is_apart(self, theirs: Column, mine: Column) -> bool:
        """Whether the site has another default on purpose, or computes the value."""
        needs = self.needs.get(theirs.number)
        foreign = bool(theirs.identity) or (needs is not None and needs.foreign)
        return foreign or bool(theirs.generated) or mine.name in self.numbered

    def _uniques(self) -> Iterator[ShapeDifference]:
        here = {frozenset(unique.columns) for unique in self.base.uniques}
        for unique in self.table.uniques:
            columns = self._called_here(unique.columns)
            if columns is not None and frozenset(columns) not in here:
                yield self._found(
                    f"unique key {unique.name}",
                    f"is at the master alone: ({', '.join(columns)})",
                    self._unique(unique, columns),
                )

    def _indexes(self) -> Iterator[ShapeDifference]:
        here = {(i.method, i.columns, i.options) for i in self.indexes_here}
        for index in self.indexes:
            columns = self._called_here(index.columns)
            if index.special or columns is None:
                continue
            if (index.method, columns, index.options) not in here:
                yield self._found(
                    f"index {index.name}",
                    f"is at the master alone: {index.method} ({', '.join(columns)})",
                    self._index(replace(index, columns=columns)),
                )

    def _unique(self, unique: Unique, columns: Sequence[str]) -> str:
        made = ddl.key_statement(self.snapshot.base, columns, like=unique)
        return made.as_string() + ";"

    def _index(self, index: Index) -> str:
        base = self.snapshot.base
        return indexes.statement(base, index, concurrently=True).as_string() + ";"

    def _called_here(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """The site's names of the master's columns; None if it lacks one."""
        names = {theirs.name: mine.name for theirs, mine in self.pairs}
        if not names.keys() >= {*columns}:
            return None
        return tuple(names[name] for name in columns)

    def _alter(self, *options: str) -> str:
        named = " ".join(options)
        return f"snaptide snapshot alter {self.site} {self.snapshot.key} {named}"

    def _of_base(self, action: str, column: str, after: str = "") -> str:
        """A statement that alters the base table.

        Parameters:
            action: with {} for the column.
            after: what follows; an expression as the catalog prints it.
        """
        made = sql.SQL("ALTER TABLE {} " + action + "{};").format(
            identifier(self.snapshot.base), sql.Identifier(column), sql.SQL(after)
        )
        return made.as_string()

    def _found(self, what: str, differs: str, todo: str) -> ShapeDifference:
        return ShapeDifference(
            snapshot=self.snapshot.key,
            table=str(self.snapshot.master),
            what=what,
            differs=differs,
            todo=todo,
        )


def _word(name: str) -> str:
    """A name as it is written on the command line."""
    plain = name.replace("_", "").isalnum() and name.isascii()
    return name if plain else shlex.quote(quoted(name))
