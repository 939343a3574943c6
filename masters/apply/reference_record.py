"""The record of rows that were dropped or changed with the row that they refer to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, Text, func

from masters.apply.detect import SourceTransaction
from masters.apply.images import Compared
from masters.catalog import resolution_record
from masters.resolution.conflict import Decision
from masters.rules.rule import Rule
from masters.rules.table_rules import TableRules
from sites.tables.table import ForeignKey
from sites.writing.staged import Staged

#: The kind of these records. They are not replayed, because no rule decides them.
KIND = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The transaction that changed the row referred to, and the rule that decided."""

    made: SourceTransaction
    rule: Rule
    #: those of the table of the row referred to
    rules: TableRules


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRecord:
    """Records rows of one table that follow others by one foreign key."""

    connection: Connection
    staged: Staged
    unit: int
    key: ForeignKey
    #: the sender, and the master that decides
    origin: str
    master: str

    def leave_out(self, call_nos: Sequence[int], cause: Cause) -> int:
        """Note that rows are left out; return how many records were added.

        Writes resolution_record.
        """
        reason = f"refers to a row of {self.key.parent} that was dropped"
        added = self._note(call_nos, cause, Decision.IGNORE, reason)
        # Earlier decisions about these rows have no result any more.
        mine = self._of(call_nos, cause)
        changed = sa.update(resolution_record).values(result_values=sa.null())
        self.connection.execute(changed.where(*mine))
        return added

    def point(self, call_nos: Sequence[int], cause: Cause) -> int:
        """Note that rows will refer to another value; return as `leave_out` does."""
        reason = f"refers to a row of {self.key.parent} that has another value"
        return self._note(call_nos, cause, Decision.SITE_WINS, reason)

    def pointed(self, call_nos: Sequence[int], cause: Cause) -> None:
        """Note the new values of rows, now that these are staged."""
        images = self._images(call_nos)
        record = resolution_record.c
        self.connection.execute(
            sa.update(resolution_record)
            .values(result_values=images.c.new)
            .where(*self._of(call_nos, cause), record.call_no == images.c.call_no)
            .where(record.kind == KIND, record.reference == self.key.name)
        )

    def _note(
        self, call_nos: Sequence[int], cause: Cause, decision: Decision, reason: str
    ) -> int:
        """Write the records, or update that of a row that has one already."""
        record = resolution_record.c
        decided: dict[str, Any] = {
            "sequence_no": cause.rule.sequence_no,
            "method": cause.rule.method,
            "decision": decision.name.lower(),
            "reason": reason,
        }
        again = (
            sa.update(resolution_record)
            .values(decided)
            .where(*self._of(call_nos, cause))
            .where(record.kind == KIND, record.reference == self.key.name)
        )
        known = self.connection.scalars(again.returning(record.call_no)).all()
        new = list(set(call_nos) - set(known))
        return self._insert(new, cause, decided) if new else 0

    def _insert(
        self, call_nos: Sequence[int], cause: Cause, decided: dict[str, Any]
    ) -> int:
        images = self._images(call_nos).c
        staged, made = self.staged, cause.made
        not_key = [c for c in staged.columns if c not in staged.identity]
        row = func.coalesce(images.old, images.new)
        same: dict[str, Any] = {
            "table_schema": staged.table.schema,
            "table_name": staged.table.name,
            "origin": made.origin or self.origin,
            "master": self.master,
            "origin_transaction": made.transaction,
            "changed_at": made.changed_at,
            "kind": KIND,
            "reference": self.key.name,
            "columns": list(self.key.columns),
            "rules_version": cause.rules.version,
            **decided,
        }
        values: dict[str, ColumnElement[Any]] = {
            **{n: sa.literal(v, resolution_record.c[n].type) for n, v in same.items()},
            "row_key": row.op("-")(sa.literal(not_key, sa.ARRAY(Text))),
            "call_no": images.call_no,
            "old_values": images.old,
            "new_values": images.new,
            "current_values": images.current,
        }
        wanted = sa.select(*values.values()).order_by(images.call_no)
        insert = sa.insert(resolution_record).from_select(list(values), wanted)
        return self.connection.execute(insert).rowcount

    def _images(self, call_nos: Sequence[int]) -> sa.CTE:
        target = self.staged.table.sql()
        joined = self.staged.source.outerjoin(target, self.staged.same_row(target))
        compared = Compared(
            staged=self.staged,
            unit=self.unit,
            joined=joined,
            current=target,
            wrong=sa.true(),
        )
        return compared.as_text(call_nos)

    def _of(self, call_nos: Sequence[int], cause: Cause) -> list[ColumnElement[bool]]:
        """Conditions for the records of rows of the transaction being applied."""
        record = resolution_record.c
        numbers = sa.literal(list(call_nos), sa.ARRAY(BigInteger))
        return [
            record.resolved_at >= func.now(),
            record.origin == (cause.made.origin or self.origin),
            record.origin_transaction == cause.made.transaction,
            record.call_no == func.any(numbers),
        ]
