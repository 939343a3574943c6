"""Checks whether rows that may differ between masters are equal by now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from sites import QualifiedName, Site, identity
from sites.errors import SnaptideError
from sites.table import Table, describe
from sites.values import printed
from snaptide_imports import lazily

if TYPE_CHECKING:
    from deferred.row_history import events
    from groups import shape
else:
    events = lazily("deferred.row_history.events")
    shape = lazily("groups.shape")

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
    #: the decision at this master that may have made them different
    why: str


def differences(
    site: Site, name: str | None = None, *, tables: bool = False
) -> list[Difference]:
    """List the rows of groups that may differ because of a decision at a master.

    Rows that all masters have alike are taken off its list.

    Parameters:
        name: only of this group; by default of all.
        tables: also compare whole tables in which any row may be different. It reads
            them at all masters.
    """
    with identity.initialised(site) as connection:
        known = [groups.find(connection, one) for one in groups.names(connection)]
        found = {
            group.name: (group, differing.listed(connection, group.id))
            for group in known
            if group is not None and name in (None, group.name)
        }
    return [
        told
        for group, rows in found.values()
        if rows
        for told in _of_group(site, group, rows, tables=tables)
    ]


def _of_group(
    site: Site, group: Group, rows: Sequence[Differing], *, tables: bool
) -> list[Difference]:
    equal = _equal(site, group, rows, tables=tables)
    if equal:
        # A user who may only read gets the same answer; the list stays as it is.
        with suppress(DBAPIError), site.transaction() as connection:
            differing.drop(connection, equal)
    left = [row for row in rows if row.id not in equal]
    return list(_told(group, left))


def _told(group: Group, rows: Iterable[Differing]) -> Iterable[Difference]:
    def kind(row: Differing) -> tuple[str, bool, str]:
        return str(row.table), row.key is not None, row.why

    for (table, single, why), some in groupby(sorted(rows, key=kind), key=kind):
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
    site: Site, group: Group, rows: Sequence[Differing], *, tables: bool
) -> set[int]:
    """Which of the rows all masters have alike; none if one does not answer."""
    wanted = [row for row in rows if tables or row.key is not None][:MOST]
    compared = [
        one.name
        for one in group.masters
        if one.joined and one.target_type is not TargetType.UNPROTECTED_READ_ONLY
    ]
    equal = {row.id for row in rows if row.table not in group.tables}
    try:
        with ExitStack() as stack:
            connections = [
                stack.enter_context(site.peer(n).transaction()) for n in compared
            ]
            for name, connection in zip(compared, connections, strict=True):
                identity.confirm(connection, name)
            equal |= {
                row.id
                for row in wanted
                if row.id not in equal and _same(connections, row)
            }
    except (SnaptideError, DBAPIError):
        pass  # a master that is away, or lacks the table, proves nothing
    return equal


def _same(connections: Sequence[Connection], row: Differing) -> bool:
    answers = []
    for connection in connections:
        table = describe(connection, row.table)
        query = shape.checksum(table) if row.key is None else _row(table, row)
        answers.append(sorted(map(repr, connection.execute(query).all())))
    return all(one == answers[0] for one in answers)


def _row(table: Table, row: Differing) -> sa.Select[*tuple[Any, ...]]:
    key = row.key or {}
    wanted = events.Wanted(
        table=QualifiedName(table.schema, table.name),
        columns=tuple(table.column(name) for name in key),
        keys=[tuple(key.values())],
    )
    source = table.sql()
    values = (printed(source.c[name]) for name in sorted(shape.carried(table)))
    return select(*values).where(wanted.found(lambda name: source.c[name]))
