"""The record of resolutions: inputs, rule and result of each settled conflict."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Text

from masters.catalog import resolution_record
from masters.conflict import Row
from masters.resolve import Explicit, ResolutionRecord, RowResolution, Take
from masters.table_rules import TableRules
from masters.verdict import Verdict
from sites.types import NativeType
from sites.values import as_text, texts
from sites.write import Staged

_STORED = [
    column.name
    for column in resolution_record.columns
    if column.name not in ("id", "resolved_at")
]


def _store() -> sa.Insert:
    """All rows of a chunk as one value, which the database takes apart by itself."""
    row_type = NativeType(f"{resolution_record.schema}.{resolution_record.name}")
    rows = sa.func.jsonb_populate_recordset(
        sa.cast(sa.null(), row_type),
        sa.cast(sa.bindparam("rows", type_=Text), NativeType("jsonb")),
    ).table_valued(*_STORED, name="stored")
    return sa.insert(resolution_record).from_select(
        _STORED, sa.select(*(rows.c[name] for name in _STORED))
    )


_STORE = _store()


@dataclass(slots=True, kw_only=True)
class Records:
    """What was decided in one table of a transaction, until it is stored.

    A row may be looked at again: a later answer to the same conflict replaces the
    earlier one, and what another conflict makes of the row is its result.
    """

    connection: Connection
    staged: Staged
    rules: TableRules
    #: the transaction's id at the origin
    transaction: str
    #: how many were stored
    written: int = 0
    #: call number -> kind and reference of a conflict -> what is stored
    _waiting: dict[int, dict[tuple[str, str], dict[str, Any]]] = field(
        default_factory=dict
    )

    def add(self, call_no: int, answer: RowResolution, decided: Verdict) -> None:
        """Note how the conflicts of a row were settled."""
        rows = self._waiting.setdefault(call_no, {})
        computed = texts(self.connection, decided.explicit)
        for row in rows.values():
            row["result_values"] = _overlaid(row["result_values"], computed, decided)
        for one in answer.records:
            row = self._row(one, answer, decided)
            rows[row["kind"], row["reference"]] = row

    def write(self, keep: Collection[int] = ()) -> None:
        """Store what was noted. Writes resolution_record.

        Parameters:
            keep: calls that will be looked at again.
        """
        rows = [
            row
            for call_no, kinds in self._waiting.items()
            if call_no not in keep
            for row in kinds.values()
        ]
        if rows:
            self.connection.execute(_STORE, {"rows": json.dumps(rows)})
        self.written += len(rows)
        self._waiting = {n: rows for n, rows in self._waiting.items() if n in keep}

    def _row(
        self, one: ResolutionRecord, answer: RowResolution, decided: Verdict
    ) -> dict[str, Any]:
        conflict, rule = one.conflict, one.rule
        row = conflict.old or conflict.new or {}
        return {
            "table_schema": conflict.table[0],
            "table_name": conflict.table[1],
            "row_key": self._shown({n: row.get(n) for n in self.staged.identity}),
            "origin": conflict.origin,
            "master": conflict.master,
            "origin_transaction": self.transaction,
            "changed_at": as_text(self.connection, conflict.changed_at),
            "kind": conflict.kind.value,
            "reference": rule.column_group or rule.constraint or "",
            "columns": list(conflict.columns),
            "sequence_no": rule.sequence_no,
            "method": rule.method,
            "rules_version": self.rules.version,
            "decision": one.resolution.decision.name.lower(),
            "reason": one.resolution.reason,
            "number": conflict.number,
            "old_values": self._shown(conflict.old),
            "new_values": self._shown(conflict.new),
            "current_values": self._shown(conflict.current),
            "result_values": self._shown(_result(one, answer, decided)),
        }

    def _shown(self, row: Row | None) -> dict[str, str | None] | None:
        """A row for the record: for people and for replay, so its values as text."""
        return None if row is None else texts(self.connection, row)


def _result(
    one: ResolutionRecord, answer: RowResolution, decided: Verdict
) -> Row | None:
    """What the row holds in the end: of an update conflict in the disputed columns."""
    new, current = one.conflict.new or {}, one.conflict.current or {}
    if decided.becomes in (None, "D"):
        return None
    if not decided.rebased:
        return {**new, **decided.explicit}
    result: dict[str, object] = {}
    for name, source in answer.columns.items():
        if isinstance(source, Explicit):
            result[name] = source.value
        else:
            result[name] = (new if source is Take.NEW else current).get(name)
    return result


def _overlaid(
    before: Mapping[str, str | None] | None,
    computed: Mapping[str, str | None],
    decided: Verdict,
) -> dict[str, str | None] | None:
    if before is None or decided.becomes is None:
        return None
    return {name: computed.get(name, value) for name, value in before.items()}
