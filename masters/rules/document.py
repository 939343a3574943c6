"""Reading and writing the rules of tables as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from masters.errors import BadRulebook
from masters.resolution.conflict import Kind
from masters.rules.checks import check_groups, checked, checked_comparison
from masters.rules.rule import Rule
from masters.rules.table_rules import Comparison, TableRules, rule_of
from sites.names import QualifiedName
from sites.tables.table import Table

#: The document, as tomllib reads it.
Rulebook: TypeAlias = Mapping[str, Any]

#: kind -> the list in the document, and the key that names the subject
_LISTS = {
    Kind.UPDATE: ("update", "group"),
    Kind.UNIQUENESS: ("unique", "constraint"),
    Kind.DELETE: ("delete", None),
}


def parsed(
    where: QualifiedName, body: Mapping[str, Any], table: Table | None
) -> TableRules:
    """The rules that a document has for a table.

    Parameters:
        table: the table to check them against; None takes them unchecked.

    Raises:
        BadRulebook, RuleError.
    """
    known = {
        "groups",
        "row_version",
        "not_compared",
        "not_sent",
        *(name for name, _ in _LISTS.values()),
    }
    if unknown := set(body) - known:
        raise BadRulebook(
            f"{where}: {', '.join(sorted(unknown))} is not one of "
            f"{', '.join(sorted(known))}."
        )
    groups = {name: tuple(columns) for name, columns in body.get("groups", {}).items()}
    rules: list[Rule] = []
    for kind, (name, subject) in _LISTS.items():
        places: dict[str, int] = {}
        entries = body.get(name, [])
        rules += [_rule(where, kind, subject, entry, places) for entry in entries]
    compared = _comparison(body)
    if table is not None:
        check_groups(table, groups)
        rules = [checked(rule, table, groups) for rule in rules]
        compared = checked_comparison(table, compared)
    return TableRules(
        table=where, groups=groups, rules=tuple(rules), comparison=compared
    )


def documents(rules: Sequence[TableRules]) -> dict[str, Any]:
    """The document that describes rules."""
    return {"tables": {str(one.table): _document(one) for one in rules}}


def differences(now: Rulebook, wanted: Rulebook) -> list[str]:
    """The differences of two documents, as lines that begin with + or -."""
    before, after = set(_lines(now)), set(_lines(wanted))
    return [
        f"{'-' if line in before else '+'} {line}" for line in sorted(before ^ after)
    ]


def _comparison(body: Mapping[str, Any]) -> Comparison:
    compared, sent = body.get("not_compared", {}), body.get("not_sent", {})
    return Comparison(
        row_version=body.get("row_version"),
        not_at_update=tuple(sorted(compared.get("update", ()))),
        not_at_delete=tuple(sorted(compared.get("delete", ()))),
        not_sent_at_update=tuple(sorted(sent.get("update", ()))),
        not_sent_at_delete=tuple(sorted(sent.get("delete", ()))),
    )


def _rule(
    where: QualifiedName,
    kind: Kind,
    subject: str | None,
    entry: Mapping[str, Any],
    places: dict[str, int],
) -> Rule:
    known = {"method", "parameters", "sequence", *([subject] if subject else [])}
    missing = {"method", *([subject] if subject else [])} - set(entry)
    if missing or set(entry) - known:
        raise BadRulebook(
            f"{where}: a rule for {kind} conflicts has "
            f"{', '.join(sorted(known))}; not {', '.join(sorted(entry))}."
        )
    reference = str(entry[subject]) if subject else ""
    place = int(entry.get("sequence", places.get(reference, 0) + 1))
    if place <= places.get(reference, 0):
        raise BadRulebook(f"{where}: {reference or kind} has two rules {place}.")
    places[reference] = place
    return rule_of(
        kind, reference, place, str(entry["method"]), entry.get("parameters", {})
    )


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
