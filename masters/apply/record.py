"""The record of resolutions: inputs, rule and result of each settled conflict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Connection, Text, func
from sqlalchemy.dialects.postgresql import JSONB

from masters.apply import answers
from masters.apply.answers import Settled
from masters.apply.detect import ConflictContext
from masters.apply.images import Compared
from masters.catalog import resolution_record
from masters.resolution.order import words
from masters.rules.table_rules import TableRules
from sites.transfer.values import Numbers
from sites.writing.staged import Staged

#: Columns of the record that are copied from the summary.
_SHOWN = ("kind", "reference", "sequence_no", "method", "decision")

_EMPTY = sa.literal({}, JSONB)


@dataclass(slots=True, kw_only=True)
class Records:
    """Writes the record of what was decided in one table of a unit.

    A row may be looked at again: a later answer to the same conflict replaces the
    earlier record, and a record shows the values that later conflicts gave to the row.
    """

    connection: Connection
    staged: Staged
    rules: TableRules
    context: ConflictContext
    #: how many conflicts are recorded
    written: int = 0
    #: calls that are recorded and may be looked at again, then one by one
    _open: set[int] = field(default_factory=set)

    def write(
        self, compared: Compared, rows: Sequence[Settled], *, again: bool
    ) -> None:
        """Store how rows were settled. Call it before the rows are restaged.

        Writes resolution_record.

        Parameters:
            compared: where the rows were found; their images are read there.
            again: the rows may be looked at again.
        """
        if not rows:
            return
        known = [row for row in rows if row.verdict.call_nos.first in self._open]
        if known:
            self._amend(known)
        self.written += self.connection.execute(self._insert(compared, rows)).rowcount
        if again:
            self._open.update(*(row.verdict.call_nos for row in rows))

    def _insert(self, compared: Compared, rows: Sequence[Settled]) -> sa.Insert:
        calls = Numbers.together(row.verdict.call_nos for row in rows)
        images = compared.as_text(calls)
        answer, summary = answers.tables(self.connection, rows, self.staged.columns)
        not_key = [c for c in self.staged.columns if c not in self.staged.identity]
        new = _with(images.c.new, answer.c.wanted)
        values: dict[str, Any] = {
            "table_schema": sa.literal(self.staged.table.schema),
            "table_name": sa.literal(self.staged.table.name),
            "row_key": _without(
                func.coalesce(images.c.old, new), sa.literal(not_key, sa.ARRAY(Text))
            ),
            "origin": func.coalesce(answer.c.origin, self.context.origin),
            "master": sa.literal(self.context.master),
            "origin_transaction": answer.c.transaction,
            "changed_at": answer.c.changed_at,
            "deleted_at": answer.c.deleted_at,
            "call_no": answer.c.call_no,
            **{name: summary.c[name] for name in _SHOWN},
            "columns": summary.c.columns,
            "rules_version": sa.literal(self.rules.version, BigInteger),
            "reason": _reason(answer, new, images.c.current),
            "number": answer.c.number,
            "old_values": images.c.old,
            "new_values": new,
            "current_values": images.c.current,
            "result_values": _with(
                _without(new, summary.c.not_new).op("||")(
                    _without(
                        func.coalesce(images.c.current, _EMPTY), summary.c.not_current
                    )
                ),
                answer.c.given,
            ),
        }
        wanted = (
            sa.select(*values.values())
            .join_from(answer, summary, summary.c.place == answer.c.summary)
            .join(images, images.c.call_no == answer.c.call_no)
            .order_by(answer.c.call_no, answer.c.summary)
        )
        return sa.insert(resolution_record).from_select(list(values), wanted)

    def _amend(self, rows: Sequence[Settled]) -> None:
        """Bring earlier records of rows up to date with the newest answers.

        The rows are of one transaction: in a unit of several transactions no row is
        looked at again.
        """
        record, made = resolution_record.c, rows[0].made
        mine = sa.and_(
            record.resolved_at >= func.now(),
            record.origin == (made.origin or self.context.origin),
            record.origin_transaction == made.transaction,
        )
        answer, summary = answers.tables(self.connection, rows, ())
        gone = self.connection.execute(
            sa.delete(resolution_record).where(
                mine,
                record.call_no == answer.c.call_no,
                summary.c.place == answer.c.summary,
                record.kind == summary.c.kind,
                record.reference == summary.c.reference,
            )
        )
        self.written -= gone.rowcount
        given = func.jsonb_each(_json(answer.c.given)).table_valued("key", "value")
        changed = (
            sa.select(func.jsonb_object_agg(given.c.key, given.c.value))
            .where(record.result_values.has_key(given.c.key))
            .scalar_subquery()
        )
        result = record.result_values.op("||")(func.coalesce(changed, _EMPTY))
        self.connection.execute(
            sa.update(resolution_record)
            .where(mine, record.call_no == answer.c.call_no)
            .where(summary.c.place == answer.c.summary)
            .values(result_values=sa.case((summary.c.not_new.is_not(None), result)))
        )


def _reason(
    answer: sa.FromClause, new: sa.ColumnElement[Any], current: sa.ColumnElement[Any]
) -> sa.ColumnElement[Any]:
    """The reason of an answer; values that it names are as the images have them."""
    name = answer.c.names
    told = words(name, new.op("->>")(name), current.op("->>")(name))
    named = func.concat(*told, answer.c.reason)
    return sa.case((name.is_(None), answer.c.reason), else_=named)


def _without(
    row: sa.ColumnElement[Any], names: sa.ColumnElement[Any]
) -> sa.ColumnElement[Any]:
    return row.op("-")(names)


def _with(
    row: sa.ColumnElement[Any], text: sa.ColumnElement[Any]
) -> sa.ColumnElement[Any]:
    """A row with values from a text; most texts are NULL, and then it is not copied."""
    return sa.case((text.is_(None), row), else_=row.op("||")(sa.cast(text, JSONB)))


def _json(text: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return func.coalesce(sa.cast(text, JSONB), _EMPTY)
