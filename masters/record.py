"""The record of resolutions: inputs, rule and result of each settled conflict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from masters.catalog import resolution_record
from masters.conflict import Kind, Row
from masters.resolve import Explicit, RowResolution, Take


def write(
    connection: Connection,
    answer: RowResolution,
    identity: Sequence[str],
    transaction: str,
) -> None:
    """Store how each conflict of a row was settled. Writes resolution_record."""
    for record in answer.records:
        conflict, rule = record.conflict, record.rule
        row = conflict.new or conflict.old or {}
        connection.execute(
            sa.insert(resolution_record).values(
                table_schema=conflict.table[0],
                table_name=conflict.table[1],
                row_key=_shown({name: row.get(name) for name in identity}),
                origin=conflict.origin,
                origin_transaction=transaction,
                kind=conflict.kind.value,
                reference=_reference(conflict.kind, rule.column_group, rule.constraint),
                sequence_no=rule.sequence_no,
                method=rule.method,
                decision=record.resolution.decision.name.lower(),
                old_values=_shown(conflict.old),
                new_values=_shown(conflict.new),
                current_values=_shown(conflict.current),
                result_values=_result(answer, conflict.new, conflict.current),
            )
        )


def _reference(kind: Kind, group: str | None, constraint: str | None) -> str:
    return (group if kind is Kind.UPDATE else constraint) or ""


def _result(
    answer: RowResolution, new: Row | None, current: Row | None
) -> dict[str, str | None] | None:
    if answer.ignored or not answer.columns:
        return None
    result: dict[str, object] = {}
    for name, source in answer.columns.items():
        if isinstance(source, Explicit):
            result[name] = source.value
        else:
            result[name] = ((new if source is Take.NEW else current) or {}).get(name)
    return _shown(result)


def _shown(row: Mapping[str, object] | None) -> dict[str, str | None] | None:
    """A row for the record: for people and for replay, so as text."""
    if row is None:
        return None
    return {name: None if value is None else str(value) for name, value in row.items()}
