"""Settling the conflicts of the record by other rules, to see what would differ.

Nothing is written. The recorded images become values again, by the types that the table
has now, and go through the same `resolve` as in an apply. A replay cannot know whether
an answer would have caused another conflict (its value might be taken too).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, select

from masters.analysis.records import Resolved, resolved
from masters.apply import reference_record
from masters.apply.resolve import Explicit, Resolver, RowResolution, Take
from masters.catalog import resolution_record
from masters.resolution.conflict import Conflict, Kind, Row
from masters.rules import rulebook
from masters.rules.document import Rulebook
from masters.rules.table_rules import TableRules
from sites import QualifiedName, Site
from sites.sessions import identity
from sites.tables.table import Table, find_table
from sites.transfer.types import NativeType
from sites.transfer.values import texts

#: How many records are read at a time.
PAGE = 1000

_SIDES = ("old", "new", "current")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One conflict of the record under other rules."""

    id: int
    table: str
    row_key: Mapping[str, str | None]
    kind: str
    reference: str
    #: method and decision as recorded, and by the other rules
    method: str
    decision: str
    would_method: str
    would_decision: str
    #: the columns in conflict as recorded, and by the other rules; None: none written
    result: Mapping[str, str | None] | None
    would_result: Mapping[str, str | None] | None

    @property
    def differs(self) -> bool:
        """Whether the other rules would have given the row other values."""
        return self.result != self.would_result


def replay(
    site: Site, book: Rulebook, *, since: int = 0, limit: int | None = None
) -> Iterator[Replayed]:
    """Settle the recorded conflicts of a master by other rules. Writes nothing.

    Parameters:
        book: the other rules, as `masters.rules.rulebook` describes them.
        since: only records after this number.
        limit: at most this many.

    Returns:
        The conflicts in the order of the record; pages are read as the caller iterates.

    Raises:
        BadRulebook, UnknownTable, RuleError.
    """
    with identity.initialised(site) as connection:
        rules = {one.table: one for one in rulebook.parse(connection, book)}
        tables: dict[QualifiedName, _Table | None] = {}
        while stored := _page(connection, since, limit):
            for name in {_table_of(one) for one in stored} - tables.keys():
                tables[name] = _described(connection, name, rules)
            found = [
                one
                for name, table in tables.items()
                if table is not None
                for one in _replayed(
                    connection, table, [r for r in stored if _table_of(r) == name]
                )
            ]
            yield from sorted(found, key=lambda one: one.id)
            since = stored[-1].id
            limit = None if limit is None else limit - len(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A table as it is now, and the other rules for it."""

    table: Table
    rules: TableRules
    resolver: Resolver


def _described(
    connection: Connection,
    name: QualifiedName,
    rules: Mapping[QualifiedName, TableRules],
) -> _Table | None:
    """The table as it is now; None if it is gone."""
    table = find_table(connection, name)
    if table is None:
        return None
    known = rules.get(name, TableRules(table=name, groups={}, rules=()))
    return _Table(table=table, rules=known, resolver=Resolver(known.rules, table.names))


def _page(connection: Connection, since: int, limit: int | None) -> list[Resolved]:
    wanted = (
        select(resolution_record)
        .where(resolution_record.c.id > since)
        .where(resolution_record.c.kind != reference_record.KIND)
        .order_by(resolution_record.c.id)
        .limit(min(PAGE, PAGE if limit is None else limit))
    )
    return [resolved(row) for row in connection.execute(wanted)]


def _table_of(one: Resolved) -> QualifiedName:
    return QualifiedName(one.table_schema, one.table_name)


def _replayed(
    connection: Connection, table: _Table, stored: Sequence[Resolved]
) -> Iterator[Replayed]:
    images = _images(connection, table.table, [one.id for one in stored])
    for one in stored:
        conflicts = _conflicts(one, table.rules, images[one.id])
        answer = table.resolver.resolve(conflicts)
        yield Replayed(
            id=one.id,
            table=str(table.rules.table),
            row_key=one.row_key,
            kind=one.kind,
            reference=one.reference,
            method=one.method,
            decision=one.decision,
            would_method=", ".join(r.rule.method for r in answer.records) or "none",
            would_decision=_decision(answer),
            result=_disputed(one),
            would_result=_result(connection, one, conflicts[0], answer),
        )


def _images(
    connection: Connection, table: Table, numbers: Sequence[int]
) -> dict[int, dict[str, Row]]:
    """The recorded images as values, by the types that the table has."""
    record = resolution_record.c
    values = [
        sa.cast(record[f"{side}_values"][c.name].astext, NativeType(c.type)).label(
            f"{side}{n}"
        )
        for side in _SIDES
        for n, c in enumerate(table.columns)
    ]
    rows = connection.execute(select(record.id, *values).where(record.id.in_(numbers)))
    return {
        row.id: {
            side: {
                c.name: getattr(row, f"{side}{n}") for n, c in enumerate(table.columns)
            }
            for side in _SIDES
        }
        for row in rows
    }


def _conflicts(
    one: Resolved, rules: TableRules, images: Mapping[str, Row]
) -> list[Conflict]:
    """The recorded conflict, in the column groups of the other rules."""
    stored = {
        "old": one.old_values,
        "new": one.new_values,
        "current": one.current_values,
    }
    sides: dict[str, Any] = {
        side: None if image is None else {n: images[side].get(n) for n in image}
        for side, image in stored.items()
    }
    kind = Kind(one.kind)
    columns = one.columns or tuple(one.new_values or one.old_values or ())
    conflict = Conflict(
        kind=kind,
        table=(one.table_schema, one.table_name),
        column_group=one.reference if kind is Kind.UPDATE else None,
        constraint=one.reference if kind is Kind.UNIQUENESS else None,
        columns=columns,
        **sides,
        origin=one.origin,
        master=one.master or "",
        changed_at=one.changed_at,
        deleted_at=one.deleted_at,
        number=one.number if one.number is not None else one.id,
    )
    if kind is not Kind.UPDATE:
        return [conflict]
    row = [name for name in one.new_values or () if name not in one.row_key]
    return [
        replace(conflict, column_group=name, columns=members)
        for name, members in rules.partition(row)
        if set(members) & set(columns)
    ] or [replace(conflict, column_group=None)]


def _decision(answer: RowResolution) -> str:
    if not answer.resolved:
        return "; ".join(one.reason for one in answer.unresolved)
    return ", ".join(r.resolution.decision.name.lower() for r in answer.records)


def _disputed(one: Resolved) -> dict[str, str | None] | None:
    if one.result_values is None:
        return None
    columns = one.columns or tuple(one.result_values)
    return {n: one.result_values[n] for n in columns if n in one.result_values}


def _result(
    connection: Connection, one: Resolved, conflict: Conflict, answer: RowResolution
) -> dict[str, str | None] | None:
    if not answer.resolved or answer.ignored or conflict.new is None:
        return None
    if conflict.kind is not Kind.UPDATE:
        # The whole row is the site's, except values that a method computed.
        given = {n: s for n, s in answer.columns.items() if isinstance(s, Explicit)}
    else:
        given = dict(answer.columns)  # type: ignore[arg-type]
    computed: dict[str, object] = {}
    result: dict[str, str | None] = {}
    for name in one.columns or tuple(conflict.new):
        source = given.get(name, Take.NEW)
        if isinstance(source, Explicit):
            computed[name] = source.value
        else:
            # As the database printed it: Python may print a timestamp differently.
            side = one.new_values if source is Take.NEW else one.current_values
            result[name] = (side or {}).get(name)
    return result | texts(connection, computed)
