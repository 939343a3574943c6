"""Checks whether rows that may differ between masters are equal by now.

They may differ because of a decision at a master, which has listed them, or because
partitions of a table have come to a master or left it.

Rows that are equal may become different once more, because the decision was about a
change that other masters have yet to apply: it is on its way from the master that
decided, or in an error queue. Such rows are no difference now, and stay listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from deferred.parked import differing
from deferred.parked.differing import Differing
from groups import group as groups
from groups.group import Group, TargetType
from sites import QualifiedName, Site
from sites.errors import SnaptideError
from sites.sessions import identity
from sites.tables.table import Table, describe
from sites.transfer.values import printed
from snaptide_imports import lazily

if TYPE_CHECKING:
    from deferred.row_history import events
    from groups import awaiting, shape
    from masters import group_parts

    #: A row or table that is listed, or a table with other partitions than before.
    _Suspect = Differing | group_parts.OtherParts
else:
    events = lazily("deferred.row_history.events")
    awaiting = lazily("groups.awaiting")
    shape = lazily("groups.shape")
    group_parts = lazily("masters.group_parts")

#: How many rows are looked at: the others stay listed for the next look.
MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Rows of a table that are not the same at all masters, as far as is known."""

    group: str
    table: str
    #: how many rows; None if any row of the table may be
    rows: int | None
    #: the key of the first of them
    key: str | None
    #: the decision at this master, or the DDL, that may have made them different
    why: str


def differences(
    site: Site,
    name: str | None = None,
    *,
    tables: bool = False,
    compare: bool = True,
) -> list[Difference]:
    """List the rows of groups that may differ because of what was done at a master.

    Rows that all masters have alike are taken off its list, unless changes of them are
    on their way from this master, or in an error queue.

    Parameters:
        name: only of this group; by default of all.
        tables: also compare whole tables in which any row may be different. It reads
            them at all masters.
        compare: look at the rows. Otherwise all that are listed may differ: no other
            master is asked, and the list stays as it is.
    """
    with identity.initialised(site) as connection:
        known = [groups.find(connection, one) for one in groups.names(connection)]
        found = {
            group.name: (group, _suspects(connection, group, site.name))
            for group in known
            if group is not None and name in (None, group.name)
        }
    return [
        told
        for group, suspects in found.values()
        if suspects
        for told in (
            _of_group(site, group, suspects, tables=tables)
            if compare
            else _told(group, [one for one in suspects if not _settled(group, one)])
        )
    ]


def _suspects(connection: Connection, group: Group, here: str) -> list[_Suspect]:
    listed = differing.listed(connection, group.id)
    if group.master(here).target_type is TargetType.UNPROTECTED_READ_ONLY:
        return [*listed]
    return [*listed, *group_parts.others(connection, group.id)]


def _of_group(
    site: Site, group: Group, suspects: Sequence[_Suspect], *, tables: bool
) -> list[Difference]:
    equal, stay = _equal(site, group, suspects, tables=tables)
    left = [one for place, one in enumerate(suspects) if place not in equal]
    equal -= stay
    parts = _parts_to_keep(suspects, equal)
    if equal or parts:
        # A user who may only read gets the same answer; the list stays as it is.
        with suppress(DBAPIError), site.transaction() as connection:
            found = [suspects[place] for place in equal]
            ids = [one.id for one in found if isinstance(one, Differing)]
            differing.drop(connection, ids)
            for table, kept in parts.items():
                group_parts.keep(connection, table, kept)
    return list(_told(group, left))


def _parts_to_keep(
    suspects: Sequence[_Suspect], equal: Collection[int]
) -> dict[QualifiedName, Mapping[str, str]]:
    """The parts of tables that were found equal, and what others may have missed."""
    return {
        one.table: kept
        for place, one in enumerate(suspects)
        if not isinstance(one, Differing)
        and (kept := one.parts if place in equal else one.missed) is not None
    }


def _told(group: Group, suspects: Iterable[_Suspect]) -> Iterable[Difference]:
    def kind(one: _Suspect) -> tuple[str, bool, str]:
        return str(one.table), one.key is not None, one.why or ""

    for (table, single, why), some in groupby(sorted(suspects, key=kind), key=kind):
        each = list(some)
        key = each[0].key or {}
        yield Difference(
            group=group.name,
            table=table,
            rows=len(each) if single else None,
            key=", ".join(f"{n}={v}" for n, v in key.items()) if single else None,
            why=why,
        )


def _equal(
    site: Site, group: Group, suspects: Sequence[_Suspect], *, tables: bool
) -> tuple[set[int], set[int]]:
    """The places of those that all masters have alike.

    If a master does not answer, only those of which that is known without it. Also the
    places of those among them that may become different again.
    """
    compared = [
        one.name
        for one in group.masters
        if one.joined and one.target_type is not TargetType.UNPROTECTED_READ_ONLY
    ]
    equal = {place for place, one in enumerate(suspects) if _settled(group, one)}
    wanted = [
        (place, one)
        for place, one in enumerate(suspects)
        if place not in equal and (tables or one.key is not None)
    ]
    stay = set[int]()
    try:
        with ExitStack() as stack:
            masters = {
                name: stack.enter_context(site.peer(name).transaction())
                for name in compared
            }
            for name, connection in masters.items():
                identity.confirm(connection, name)
            connections = [*masters.values()]
            for place, one in wanted[:MOST]:
                # Before the rows: what arrives meanwhile is in one or the other.
                waits = isinstance(one, Differing) and _awaits(masters, site.name, one)
                if _same(connections, one):
                    equal.add(place)
                    stay |= {place} if waits else set()
    except (SnaptideError, DBAPIError):
        pass  # a master that is away, or lacks the table, proves nothing
    return equal, stay


def _awaits(masters: Mapping[str, Connection], here: str, row: Differing) -> bool:
    """Whether equal rows may become different again, see `groups.awaiting`."""
    mine = masters.get(here)
    connection = mine or next(iter(masters.values()))
    wanted = row.key and _wanted(describe(connection, row.table), row.key)
    if awaiting.is_parked(masters.values(), row.table, wanted or None):
        return True
    return mine is not None and awaiting.on_its_way(mine, row.table, wanted or None)


def _settled(group: Group, one: _Suspect) -> bool:
    """Whether nothing is to be compared for it."""
    return one.table not in group.tables or one.why is None


def _same(connections: Sequence[Connection], row: _Suspect) -> bool:
    answers = []
    for connection in connections:
        table = describe(connection, row.table)
        query = shape.checksum(table) if row.key is None else _row(table, row.key)
        answers.append(sorted(map(repr, connection.execute(query).all())))
    return all(one == answers[0] for one in answers)


def _row(table: Table, key: Mapping[str, str]) -> sa.Select[*tuple[Any, ...]]:
    wanted = _wanted(table, key)
    source = table.sql()
    values = (printed(source.c[name]) for name in sorted(shape.carried(table)))
    return select(*values).where(wanted.found(lambda name: source.c[name]))


def _wanted(table: Table, key: Mapping[str, str]) -> events.Wanted:
    return events.Wanted(
        table=QualifiedName(table.schema, table.name),
        columns=tuple(table.column(name) for name in key),
        keys=[tuple(key.values())],
    )
