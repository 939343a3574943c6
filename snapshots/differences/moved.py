"""Which rows of other tables have changed so that rows may enter or leave a snapshot.

A snapshot log says which rows of such a table changed. Most of these changes do not
matter: if the columns that conditions look at are the same at the site as at the master
now, and no user of the site has touched the row, they are as they were at the group's
position. Where the site has no such snapshot, where it shows another moment than the
one that asks, or where a trigger of its users may have given the row other values,
every change counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Select, Text, cast, select

from sites.conditions.subqueries import Subquery
from sites.extras import pa
from sites.names import QualifiedName
from sites.tables.table import Table
from sites.tables.users_triggers import firing
from sites.transfer.values import printed
from snapshots import keys
from snapshots.definitions import parents
from snapshots.definitions.parents import Parent
from snapshots.definitions.snapshot import key_types
from snapshots.differences.window import COMPLETE, FAST, LOAD, Member, Window
from snapshots.keys import CHUNK, FEW, Keys, Side, Sides, as_rows


def find(sides: Sides, seen: Window, *, trust_site: bool = True) -> Window:
    """Find for each fast member which rows that its condition looks for have changed.

    If they are too many, the member is compared completely.

    Parameters:
        trust_site: whether the site has the rows of the position where none of its
            users has touched them; otherwise every change counts.
    """
    finder = _Finder(sides=sides, seen=seen, trust_site=trust_site)
    return replace(seen, members=tuple(map(finder.member, seen.members)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finder:
    sides: Sides
    seen: Window
    trust_site: bool
    #: what has been found already, by table and moment: several members may ask one
    found: dict[tuple[QualifiedName, str], Keys | None] = field(default_factory=dict)

    def member(self, member: Member) -> Member:
        if member.method != FAST or not member.parents:
            return member
        snapshot = member.snapshot
        asks = snapshot.parts.subqueries
        changed = [(one, self.changed(one, member)) for one in asks]
        known = tuple((one, which) for one, which in changed if which is not None)
        if len(known) < len(changed):
            return replace(member, method=COMPLETE)
        matters = any(changed.num_rows for _, changed in known)
        ours = not matters or self._holds_values(member)
        return replace(member, moved=known, has_our_values=ours)

    def changed(self, one: Subquery, member: Member) -> Keys | None:
        """Keys of the rows that may be another answer to a subquery than before."""
        parent, since = member.parents[one.table], member.since
        assert since is not None
        if (one.table, since) not in self.found:
            self.found[one.table, since] = self._moved(parent, since)
        changed = self.found[one.table, since]
        for inner in one.subqueries:
            above = self.changed(inner, member)
            if above is None:
                return None
            for side, query in self._looking(parent, inner, member, above):
                more = self._read(query, parent, side)
                if changed is None or more is None:
                    return None
                changed = keys.together(changed, more)
        return changed

    def _looking(
        self, parent: Parent, inner: Subquery, member: Member, above: Keys
    ) -> Iterator[tuple[Side, Select[Any]]]:
        """Where to look for rows of a table that look for some rows above them.

        A publication of the master hides rows that have left with what they followed.
        The site has these, or it has something pending of them: before the table that
        is read for their key, so that none is missed which is changed meanwhile.
        """
        asked = member.parents[inner.table]
        if above.num_rows:
            yield (
                self.sides.master,
                parents.looking(parent.table, parent.key, inner, asked, above),
            )
        if not parent.table.divided:
            return
        for one in self.seen.members:
            if one.snapshot.master != parent.table.qualified:
                continue
            if above.num_rows:
                yield (
                    self.sides.site,
                    parents.looking(one.base, parent.key, inner, asked, above),
                )
            yield self.sides.site, one.snapshot.logged_keys()

    def _read(
        self, query: Select[Any], parent: Parent, side: Side | None = None
    ) -> Keys | None:
        names = parent.key_names
        return keys.read(side or self.sides.master, query, names, lambda: CHUNK)

    def _moved(self, parent: Parent, since: str) -> Keys | None:
        """Keys of the rows in a table's log whose change may matter."""
        logged = self._read(parents.logged(parent, since), parent)
        here = self._member_of(parent, since) if self.trust_site else None
        if not logged or here is None:
            return logged
        return _without(logged, self._unmoved(parent, here, logged))

    def _member_of(self, parent: Parent, since: str) -> Member | None:
        """The snapshot that has the columns of a table that conditions look at."""
        for one in self.seen.members:
            same = one.snapshot.master == parent.table.qualified and one.since == since
            known = self._uses(parent) <= {*one.snapshot.columns}
            if same and known and one.method != LOAD and self._holds_values(one):
                return one
        return None

    def _holds_values(self, member: Member) -> bool:
        """Whether the site's rows have the values that refreshes have brought."""
        triggers = firing(self.sides.site.at, member.base.qualified)
        return not any(one.sets_values for one in triggers)

    def _uses(self, parent: Parent) -> set[str]:
        every = (one.snapshot.asked for one in self.seen.members)
        return {
            *parent.key,
            *(c for asked in every for c in asked.get(parent.table.qualified, ())),
        }

    def _unmoved(
        self, parent: Parent, here: Member, logged: Keys
    ) -> set[tuple[object, ...]]:
        """Keys of the rows that are the same at both sides in all that matters."""
        columns = sorted(self._uses(parent))
        wanted = as_rows(logged, key_types(parent.table, parent.key))
        there = _values(parent.table, parent.key, columns, wanted)
        own = here.snapshot.logged_keys().subquery("own")
        base = here.base.sql()
        pairs = zip(
            here.snapshot.identity_columns, here.snapshot.key_names, strict=True
        )
        pending = sa.exists().where(*(base.c[c] == own.c[k] for c, k in pairs))
        present = _values(here.base, parent.key, columns, wanted).where(~pending)
        names = [*parent.key_names, *columns]
        rows = [
            _rows(side, query, names, many=logged.num_rows > FEW)
            for side, query in ((self.sides.master, there), (self.sides.site, present))
        ]
        return {row[: len(parent.key)] for row in rows[0] & rows[1]}


def _values(
    table: Table, key: Sequence[str], columns: Sequence[str], wanted: sa.FromClause
) -> Select[Any]:
    """The keys that are wanted, and as texts the values of their rows."""
    rows = table.sql()
    names = [column.name for column in wanted.c]
    same = [rows.c[c] == wanted.c[k] for c, k in zip(key, names, strict=True)]
    texts: list[Any] = [cast(wanted.c[k], Text).label(k) for k in names]
    texts += [printed(rows.c[name]).label(f"v_{name}") for name in columns]
    return select(*texts).join_from(rows, wanted, sa.and_(*same))


def _rows(
    side: Side, query: Select[Any], names: Sequence[str], *, many: bool
) -> set[tuple[object, ...]]:
    shape = pa.schema([(f"c{n}", pa.string()) for n, _ in enumerate(names)])
    found = side.read(query, shape, many=many)
    return {*zip(*(column.to_pylist() for column in found.columns), strict=True)}


def _without(logged: Keys, unmoved: set[tuple[object, ...]]) -> Keys:
    rows = zip(*(column.to_pylist() for column in logged.columns), strict=True)
    return logged.filter(pa.array([row not in unmoved for row in rows], pa.bool_()))
