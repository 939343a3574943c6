"""All rules of a master as one document, to be kept under version control.

The same document is what `snaptide rules export` prints and `rules apply` reads,
and what the catalog keeps of each version of the rules:

    [tables."public.flights"]
    groups = {delays = ["dep_delay", "arr_delay"]}

    [[tables."public.flights".update]]
    group = "delays"
    method = "latest_timestamp"
    parameters = {column = "changed_at"}

with `unique` (constraint) and `delete` beside `update`, and `row_version`,
`not_compared = {update = [...], delete = [...]}` and `not_sent`, of the same form,
beside `groups`. Rules for one
subject are tried in the order of the file, unless they have a `sequence`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, select

from masters.catalog import column_group, comparison, resolution_rule, rules_version
from masters.conflict import Kind
from masters.errors import (
    BadRulebook,
    RuleError,
    UnknownColumn,
    UnknownColumnGroup,
    UnknownConstraint,
)
from masters.rule import Rule
from masters.table_rules import (
    EVERYTHING,
    Comparison,
    TableRules,
    load,
    named,
    rule_of,
)
from sites import QualifiedName, Site, identity, names
from sites.table import Table, describe

#: The document, as tomllib reads it.
Rulebook: TypeAlias = Mapping[str, Any]

#: kind -> the list in the document, and the key that names the subject
_LISTS = {
    Kind.UPDATE: ("update", "group"),
    Kind.UNIQUENESS: ("unique", "constraint"),
    Kind.DELETE: ("delete", None),
}

_SIZED_TEXT = re.compile(r"character(?: varying)?\((\d+)\)")
_APPENDING = ("append_sequence", "append_site_name")


def export(site: Site) -> dict[str, Any]:
    """All rules of a master, as a document."""
    with site.begin() as connection:
        identity.read(connection)
        return read(connection)


def read(connection: Connection) -> dict[str, Any]:
    """All rules that the catalog holds, as a document."""
    tables = connection.execute(
        sa.union(
            *(
                select(t.c.table_schema, t.c.table_name)
                for t in (column_group, resolution_rule, comparison)
            )
        )
    ).all()
    found = (load(connection, QualifiedName(*row)) for row in sorted(tables))
    return {"tables": {str(one.table): _document(one) for one in found}}


def apply(site: Site, book: Rulebook, what: str = "apply a file") -> list[str]:
    """Make the rules of a master those of a document, in one transaction.

    Tables that the document leaves out lose their rules.

    Returns:
        The differences, as `diff` shows them; nothing is written when there are none.

    Raises:
        BadRulebook, UnknownTable, RuleError: then nothing is changed.
    """
    with site.begin() as connection:
        identity.read(connection)
        connection.execute(
            sa.text("LOCK TABLE snaptide.resolution_rule IN SHARE ROW EXCLUSIVE MODE")
        )
        wanted = parse(connection, book)
        changes = _differences(read(connection), _documents(wanted))
        if changes:
            for catalog in (column_group, resolution_rule, comparison):
                connection.execute(sa.delete(catalog))
            for one in wanted:
                _write(connection, one)
            note(connection, what)
        return changes


def diff(site: Site, book: Rulebook) -> list[str]:
    """What `apply` would change: lines that begin with + or -.

    Raises:
        BadRulebook, UnknownTable, RuleError.
    """
    with site.begin() as connection:
        identity.read(connection)
        wanted = parse(connection, book)
        return _differences(read(connection), _documents(wanted))


def parse(connection: Connection, book: Rulebook) -> list[TableRules]:
    """The rules that a document describes, checked against the tables of a master.

    Raises:
        BadRulebook, UnknownTable, RuleError.
    """
    tables = book.get("tables", {})
    if set(book) - {"tables"} or not isinstance(tables, Mapping):
        raise BadRulebook("A file of rules has [tables] and nothing else.")
    return [
        _parsed(describe(connection, names.parse(name)), body)
        for name, body in tables.items()
    ]


def note(connection: Connection, what: str) -> None:
    """Keep the rules as they are now as a version. Writes rules_version."""
    connection.execute(
        sa.insert(rules_version).values(what=what, rules=read(connection))
    )


def insert(connection: Connection, table: QualifiedName, rule: Rule) -> None:
    """Store a rule. Writes resolution_rule."""
    connection.execute(
        sa.insert(resolution_rule).values(
            **named(table),
            kind=rule.kind.value,
            reference=rule.reference,
            sequence_no=rule.sequence_no,
            method=rule.method,
            parameters=dict(rule.parameters),
        )
    )


def checked(rule: Rule, table: Table, groups: Mapping[str, Sequence[str]]) -> Rule:
    """A rule that the table and its method accept, with the length of its column.

    Raises:
        UnknownColumnGroup, UnknownConstraint.
        RuleError: the method refuses it.
    """
    columns = _decided(rule, table, groups)
    if rule.method in _APPENDING and "length" not in rule.parameters:
        rule = rule_of(
            rule.kind,
            rule.reference,
            rule.sequence_no,
            rule.method,
            {**rule.parameters, **_length(table, rule.parameters.get("column"))},
        )
    rule.build(table.names if rule.compares_rows else columns)
    return rule


def require_columns(table: Table, columns: Sequence[str]) -> None:
    """Refuse names of columns that a table does not have.

    Raises:
        UnknownColumn.
    """
    if unknown := [name for name in columns if name not in table.names]:
        raise UnknownColumn(
            f"Table {table.qualified} has no column {', '.join(map(repr, unknown))}.",
            columns=unknown,
        )


def write_comparison(
    connection: Connection, table: QualifiedName, found: Comparison
) -> None:
    """Store what is compared in a table. Writes comparison."""
    connection.execute(
        sa.delete(comparison).where(
            comparison.c.table_schema == table.schema,
            comparison.c.table_name == table.name,
        )
    )
    if found != EVERYTHING:
        connection.execute(
            sa.insert(comparison).values(
                **named(table),
                row_version=found.row_version,
                not_at_update=list(found.not_at_update),
                not_at_delete=list(found.not_at_delete),
                not_sent_at_update=list(found.not_sent_at_update),
                not_sent_at_delete=list(found.not_sent_at_delete),
            )
        )


def _decided(
    rule: Rule, table: Table, groups: Mapping[str, Sequence[str]]
) -> Sequence[str]:
    if rule.kind is Kind.DELETE:
        return table.names
    if rule.kind is Kind.UPDATE:
        if rule.reference not in groups:
            raise UnknownColumnGroup(
                f"Table {table.qualified} has no column group {rule.reference!r}.",
                table=str(table.qualified),
                group=rule.reference,
            )
        return groups[rule.reference]
    for unique in table.uniques:
        if unique.name == rule.reference:
            return unique.columns
    known = [unique.name for unique in table.uniques]
    raise UnknownConstraint(
        f"Table {table.qualified} has no unique constraint {rule.reference!r}; "
        f"it has: {', '.join(known) or 'none'}.",
        table=str(table.qualified),
        known=known,
    )


def _length(table: Table, column: object) -> dict[str, int]:
    if column not in table.names:
        return {}
    sized = _SIZED_TEXT.fullmatch(table.column(str(column)).type)
    return {"length": int(sized[1])} if sized else {}


def _parsed(table: Table, body: Mapping[str, Any]) -> TableRules:
    known = {
        "groups",
        "row_version",
        "not_compared",
        "not_sent",
        *(name for name, _ in _LISTS.values()),
    }
    if unknown := set(body) - known:
        raise BadRulebook(
            f"{table.qualified}: {', '.join(sorted(unknown))} is none of "
            f"{', '.join(sorted(known))}."
        )
    groups = {name: tuple(columns) for name, columns in body.get("groups", {}).items()}
    _check_groups(table, groups)
    rules: list[Rule] = []
    for kind, (name, subject) in _LISTS.items():
        places: dict[str, int] = {}
        for entry in body.get(name, []):
            rule = _rule(table, kind, subject, entry, places)
            rules.append(checked(rule, table, groups))
    return TableRules(
        table=table.qualified,
        groups=groups,
        rules=tuple(rules),
        comparison=_comparison(table, body),
    )


def _comparison(table: Table, body: Mapping[str, Any]) -> Comparison:
    compared, sent = body.get("not_compared", {}), body.get("not_sent", {})
    found = Comparison(
        row_version=body.get("row_version"),
        not_at_update=tuple(sorted(compared.get("update", ()))),
        not_at_delete=tuple(sorted(compared.get("delete", ()))),
        not_sent_at_update=tuple(sorted(sent.get("update", ()))),
        not_sent_at_delete=tuple(sorted(sent.get("delete", ()))),
    )
    return checked_comparison(table, found)


def checked_comparison(table: Table, found: Comparison) -> Comparison:
    """What is compared and sent, as far as the table allows it.

    Raises:
        UnknownColumn.
        RuleError: what identifies a row, and a row version, have to be sent.
    """
    version = [found.row_version] if found.row_version is not None else []
    unsent = {*found.not_sent_at_update, *found.not_sent_at_delete}
    require_columns(
        table, [*version, *found.not_at_update, *found.not_at_delete, *sorted(unsent)]
    )
    if needed := unsent & {*table.key, *version}:
        raise RuleError(
            f"Old values of {', '.join(sorted(needed))} have to be sent: "
            "they are the key or the row version."
        )
    return found


def _rule(
    table: Table,
    kind: Kind,
    subject: str | None,
    entry: Mapping[str, Any],
    places: dict[str, int],
) -> Rule:
    known = {"method", "parameters", "sequence", *([subject] if subject else [])}
    missing = {"method", *([subject] if subject else [])} - set(entry)
    if missing or set(entry) - known:
        raise BadRulebook(
            f"{table.qualified}: a rule for {kind} conflicts has "
            f"{', '.join(sorted(known))}; not {', '.join(sorted(entry))}."
        )
    reference = str(entry[subject]) if subject else ""
    place = int(entry.get("sequence", places.get(reference, 0) + 1))
    if place <= places.get(reference, 0):
        raise BadRulebook(
            f"{table.qualified}: {reference or kind} has two rules {place}."
        )
    places[reference] = place
    return rule_of(
        kind, reference, place, str(entry["method"]), entry.get("parameters", {})
    )


def _check_groups(table: Table, groups: Mapping[str, Sequence[str]]) -> None:
    members = [column for columns in groups.values() for column in columns]
    require_columns(table, members)
    if len(set(members)) < len(members):
        raise BadRulebook(f"{table.qualified}: a column is in two column groups.")


def _document(one: TableRules) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if one.groups:
        body["groups"] = {name: list(columns) for name, columns in one.groups.items()}
    if one.comparison.row_version:
        body["row_version"] = one.comparison.row_version
    now = one.comparison
    for name, update, delete in (
        ("not_compared", now.not_at_update, now.not_at_delete),
        ("not_sent", now.not_sent_at_update, now.not_sent_at_delete),
    ):
        left_out = {"update": list(update), "delete": list(delete)}
        if any(left_out.values()):
            body[name] = {n: columns for n, columns in left_out.items() if columns}
    for rule in sorted(one.rules, key=lambda r: (r.kind, r.reference, r.sequence_no)):
        name, subject = _LISTS[rule.kind]
        entry: dict[str, Any] = {subject: rule.reference} if subject else {}
        entry |= {"method": rule.method, "sequence": rule.sequence_no}
        if rule.parameters:
            entry["parameters"] = dict(rule.parameters)
        body.setdefault(name, []).append(entry)
    return body


def _documents(rules: Sequence[TableRules]) -> dict[str, Any]:
    return {"tables": {str(one.table): _document(one) for one in rules}}


def _write(connection: Connection, one: TableRules) -> None:
    for name, columns in one.groups.items():
        connection.execute(
            sa.insert(column_group).values(
                **named(one.table), name=name, columns=list(columns)
            )
        )
    for rule in one.rules:
        insert(connection, one.table, rule)
    write_comparison(connection, one.table, one.comparison)


def _differences(now: Rulebook, wanted: Rulebook) -> list[str]:
    before, after = set(_lines(now)), set(_lines(wanted))
    return [
        f"{'-' if line in before else '+'} {line}" for line in sorted(before ^ after)
    ]


def _lines(book: Rulebook) -> list[str]:
    lines = []
    for table, body in book["tables"].items():
        for name, value in body.items():
            if name == "groups":
                lines += [
                    f"{table} group {g}: {', '.join(c)}" for g, c in value.items()
                ]
            elif isinstance(value, list):
                lines += [f"{table} {name} {_spelled(entry)}" for entry in value]
            else:
                lines.append(f"{table} {name}: {value}")
    return lines


def _spelled(entry: Mapping[str, Any]) -> str:
    subject = entry.get("group") or entry.get("constraint") or ""
    given = ", ".join(
        f"{name}={value!r}"
        for name, value in sorted(entry.get("parameters", {}).items())
    )
    return f"{subject} {entry['sequence']}: {entry['method']}({given})".strip()
