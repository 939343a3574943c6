"""Lists column groups and rules, a line for each, for terminals and pages."""

from __future__ import annotations

import json
from collections.abc import Iterable

from masters.rules import TableRules

COLUMNS = ["table", "conflict", "of", "columns", "place", "method", "parameters"]


def rows(found: Iterable[TableRules]) -> list[list[object]]:
    """The rules of tables, and what is not compared or not sent there."""
    return [row for one in found for row in _of_table(one)]


def _of_table(one: TableRules) -> list[list[object]]:
    where = str(one.table)
    rows: list[list[object]] = [
        [where, what, name, None, None, told, None]
        for told, what, left_out in (
            ("not compared", "update", one.comparison.not_at_update),
            ("not compared", "delete", one.comparison.not_at_delete),
            ("not sent", "update", one.comparison.not_sent_at_update),
            ("not sent", "delete", one.comparison.not_sent_at_delete),
        )
        for name in left_out
    ]
    if one.comparison.row_version:
        version = one.comparison.row_version
        rows.append([where, "any", version, None, None, "row version", None])
    ruled = {rule.column_group for rule in one.rules}
    rows += [
        [where, "update", name, columns, None, "none yet", None]
        for name, columns in one.groups.items()
        if name not in ruled
    ]
    rows += [
        [
            where,
            rule.kind.value,
            rule.column_group or rule.constraint,
            one.groups.get(rule.column_group or "", ()),
            rule.sequence_no,
            rule.method,
            json.dumps(dict(rule.parameters)),
        ]
        for rule in one.rules
    ]
    return rows
