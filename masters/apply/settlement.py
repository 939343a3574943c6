"""Settling the conflicts of one transaction in one table, until none is left.

Rows that disagree with the master's row of the same key come first. When their column
groups are decided, rows come whose new values would break unique constraints. A row
that gets a new value from an answer is looked at again: another row may hold it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlalchemy import Connection

from masters.apply import (
    deletes,
    detect,
    differences,
    images,
    reached,
    restage,
    uniqueness,
    verdict,
)
from masters.apply.alone import Alone
from masters.apply.answers import Settled
from masters.apply.detect import ConflictContext, RowConflicts
from masters.apply.drawing import numbered
from masters.apply.followers import Followers
from masters.apply.images import Compared
from masters.apply.record import Records
from masters.apply.resend import resend
from masters.apply.resolve import Attempt, Resolver, RowResolution
from masters.apply.verdict import Verdict
from masters.resolution.conflict import Kind, Subject
from masters.rules.table_rules import TableRules
from sites import collector
from sites.tables.table import Unique
from sites.transfer.values import Numbers
from sites.writing import write
from sites.writing.staged import MOVE, Staged

#: How many numbers append sequence may try for one row.
DRAWS = 5

#: The search stops when no rule settles this many rows of a transaction: it cannot be
#: applied, and the conflicts found so far explain why.
ENOUGH = 10_000

_DRAWING = "append_sequence"


@dataclass(kw_only=True)
class Settlement:
    """The conflicts of one unit in one table, and what was decided about them."""

    connection: Connection
    staged: Staged
    unit: int
    rules: TableRules
    context: ConflictContext
    #: how many staged rows there are of each kind; kept up to date
    count: dict[str, int]
    #: rows that refer to rows of this table and of others in the unit
    followers: Followers
    alone: Alone
    #: the unit has several transactions, see `_stands_alone`
    several: bool = False
    #: call number -> why the row could not be settled
    unresolved: dict[int, str] = field(default_factory=dict)
    #: the transactions of those rows
    refused: set[int] = field(default_factory=set)
    #: the deletes of the table, if a rule asks when a row was deleted
    deletes: deletes.Deletes | None = None
    #: new values are written under a unique constraint besides the key
    _touched: bool = False
    records: Records = field(init=False)
    _drawing: frozenset[Subject] = field(init=False)
    #: the site's values in columns for which a method computed others
    _wanted: dict[int, dict[str, object]] = field(default_factory=dict)
    _answered: dict[tuple[int, str], Attempt] = field(default_factory=dict)
    _failed: dict[int, list[Attempt]] = field(default_factory=dict)
    _refused: set[tuple[int, str | None]] = field(default_factory=set)
    _groups: differences.Groups = field(init=False)
    #: columns of unique constraints, and rows that got new values under one
    _guarded: set[str] = field(default_factory=set)
    _exposed: set[int] = field(default_factory=set)
    _draws: Counter[int] = field(default_factory=Counter)
    #: calls of rows alike that no rule settles: reasons name the values of each
    _apart: list[Numbers] = field(default_factory=list)
    #: changes that need no further look for rows that they take along
    _accepted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.rules.ask_when_deleted:
            self.deletes = deletes.known(self.connection, self.staged)
        self.records = Records(
            connection=self.connection,
            staged=self.staged,
            rules=self.rules,
            context=self.context,
        )
        self._groups = self.rules.partition(self.staged.beside_key)
        self._drawing = frozenset(
            rule.subject for rule in self.rules.rules if rule.method == _DRAWING
        )

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(self.rules.rules, self.staged.columns)

    @property
    def too_many_unresolved(self) -> bool:
        """Whether so many rows are unresolved that the search stops."""
        return len(self.unresolved) >= ENOUGH

    def run(self) -> None:
        """Lock the rows, and settle all conflicts that rules can settle.

        Writes the work table and the record.
        """
        constraints = self.staged.breakable(moving=self._moving())
        self._guarded = {c for unique in constraints for c in unique.columns}
        self._touched = bool(constraints) and uniqueness.touched(
            self.connection, self.staged, self._guarded, self.unit
        )
        calls = self._disagreeing()
        if calls is None or calls:
            self._settle_rows(calls, first=True, again=self._touched)
        while (
            (self._touched or self._exposed)
            and not self.too_many_unresolved
            and self._settle_values(constraints)
        ):
            pass

    def _disagreeing(self) -> Numbers | None:
        """Lock the rows; name the calls that may be in conflict, None if all may be."""
        if self.deletes is None:
            return detect.disagreeing(
                self.connection,
                self.staged,
                self.unit,
                self._groups,
                self.rules.comparison,
                self.count,
            )
        detect.lock(self.connection, self.staged, self.unit)
        return None

    def _settle_rows(
        self, calls: Sequence[int] | None, *, again: bool, first: bool = False
    ) -> None:
        """Settle conflicts with rows of the same key, again for keys that changed.

        Parameters:
            calls: numbers of the calls to look at; all if not given.
            first: none of them has been looked at before.
        """
        groups = self._groups
        among = None if calls is None else images.chosen(self.staged, self.unit, calls)
        compared = detect.with_rows(
            self.staged,
            self.unit,
            groups,
            self.rules.comparison,
            among=among,
            deleted_at=None if self.deletes is None else self.deletes.latest(),
            moving=self._moving(),
        )
        subjects = (
            {(Kind.UPDATE, name): columns for name, columns in groups}
            | {(Kind.DELETE, None): self.staged.columns}
            | {(Kind.UNIQUENESS, detect.key_name(self.staged)): self.staged.identity}
        )
        read = self._resolver.reads(subjects)
        together = first and self._may_be_alike(read)
        moved: list[int] = []
        for rows in detect.detect(
            self.connection,
            compared,
            groups,
            self.context,
            read,
            calls=self._calls() if calls is None else len(calls),
            ordered=self._resolver.ordered(subjects) if together else None,
        ):
            moved += self._settle(rows, compared, by_key=True, again=again)
            if self.too_many_unresolved:
                return
        if self._apart:
            each = Numbers.together(self._apart)
            self._apart.clear()
            self._settle_rows(each, again=again)
        if moved:
            detect.lock(self.connection, self.staged, self.unit)
            self._settle_rows(moved, again=again)

    def settle_taken_along(
        self, among: Sequence[tuple[Staged, Mapping[str, int]]]
    ) -> bool:
        """Settle conflicts of changes that take along rows the unit does not name.

        Writes the work table and the record. Call it when all tables are settled.

        Parameters:
            among: the work tables of the unit, and how many rows each has of each kind.

        Returns:
            Whether a change was dropped: another change may now take its row along.
        """
        before = sum(self.count.values())
        compared, rows, paths = reached.conflicts(
            self.connection,
            self.staged,
            [staged for staged, _ in among],
            self.unit,
            self.context,
            self._resolver.reads({(Kind.DELETE, None): self.staged.columns}),
            anew=self.staged.table.qualified in write.replaced_anew(among),
            but=self._accepted,
        )
        self._accepted.update(*(row.call_nos for row in rows))
        self._settle(rows, compared, by_key=True, again=False)
        # Changes that were dropped are not in the work table any more.
        self.alone.reached(self.connection, paths)
        return sum(self.count.values()) < before

    def _settle_values(self, constraints: Iterable[Unique]) -> bool:
        """Settle conflicts with rows of other keys; return whether to look again."""
        settled = False
        for unique in constraints:
            compared = uniqueness.taken(self.staged, unique, self.unit)
            read = self._resolver.reads(
                {(Kind.UNIQUENESS, unique.name): unique.columns}
            )
            moved: list[int] = []
            found = uniqueness.detect(
                self.connection, compared, unique, self.context, read, self._calls()
            )
            for rows in found:
                new = [r for r in rows if (r.call_no, unique.name) not in self._refused]
                moved += self._settle(new, compared, by_key=False, again=True)
                settled = settled or bool(new)
                if self.too_many_unresolved:
                    return False
            if moved:
                detect.lock(self.connection, self.staged, self.unit)
                self._settle_rows(moved, again=True)
        return settled

    def _may_be_alike(self, read: Sequence[str]) -> bool:
        """Whether rules may see rows that do not differ: no keys, no drawn numbers."""
        keyed = set(self.staged.identity) <= set(read)
        return self._calls() > 1 and not self._drawing and not keyed

    def _moving(self) -> bool:
        return bool(self.count.get(MOVE))

    def _calls(self) -> int:
        return sum(self.count.values())

    def _settle(
        self,
        rows: Sequence[RowConflicts],
        compared: Compared,
        *,
        by_key: bool,
        again: bool,
    ) -> list[int]:
        """Decide a chunk of rows and restage it; return calls that got another key."""
        with collector.paused():
            settled = self._decided(rows, by_key=by_key)
            self.records.write(compared, settled, again=again)
        verdicts = [one.verdict for one in settled]
        sent = [no for one in verdicts if one.resend for no in one.call_nos]
        resend(self.connection, self.staged, self.unit, sent)
        self.followers.look(self.staged, settled, self.rules)
        self.alone.settled(self.staged, settled, self.rules)
        restage.restage(self.connection, self.staged, self.unit, verdicts)
        self.followers.follow()
        identity = set(self.staged.identity)
        renamed = [r for r in settled if identity & r.verdict.explicit.keys()]
        self.alone.settled(self.staged, renamed, self.rules)
        return [
            call_no
            for one in verdicts
            if one.becomes == "I"
            and (one.kind == MOVE or identity & one.explicit.keys())
            for call_no in one.call_nos
        ]

    def _decided(self, rows: Sequence[RowConflicts], *, by_key: bool) -> list[Settled]:
        """The rows that rules settled; notes for the others why they could not."""
        settled: list[Settled] = []
        gone = self.followers.left_out(self.staged)
        left = [self._as_wanted(row) for row in detect.without(rows, gone)]
        for row in numbered(self.connection, left, self._drawing):
            self._note_failure(row)
            if self.several and not self._stands_alone(row):
                self._refuse(row, "the transaction has to be applied on its own")
                continue
            failed = self._failed.get(row.call_no, ())
            answer = self._resolver.resolve(row.conflicts, failed)
            if row.differ and not answer.resolved:
                self._apart.append(row.call_nos)
                continue
            decided = self._decide(row, answer, by_key=by_key)
            if isinstance(decided, str):
                self._refuse(row, decided)
            else:
                settled.append(self._note(row, answer, decided))
        return settled

    def _decide(
        self, row: RowConflicts, answer: RowResolution, *, by_key: bool
    ) -> Verdict | str:
        if not answer.resolved:
            return answer.reason
        decided = (verdict.of_row if by_key else verdict.of_constraint)(
            row, answer, self.staged.identity
        )
        if isinstance(decided, str):
            return decided
        if reason := self.followers.refuse(self.staged, decided, answer):
            return reason
        if by_key and self.several and self._guarded & decided.explicit.keys():
            return "another transaction may take the value"
        return decided

    def _stands_alone(self, row: RowConflicts) -> bool:
        """Whether the answer would be the same if the transaction came by itself.

        It would if no other transaction touches the row, the row stays, and no unique
        value passes from one row to another.
        """
        return row.kind == "U" and row.present and not row.several and not self._touched

    def _refuse(self, row: RowConflicts, reason: str) -> None:
        self.refused.add(row.tran)
        for call_no in row.call_nos:
            self._refused |= {(call_no, one.constraint) for one in row.conflicts}
            before = self.unresolved.get(call_no)
            self.unresolved[call_no] = f"{before}; {reason}" if before else reason

    def _note(
        self, row: RowConflicts, answer: RowResolution, decided: Verdict
    ) -> Settled:
        wanted = self._wanted.get(row.call_no, {})
        calls, becomes = len(row.call_nos), decided.becomes
        self.count[decided.kind] -= calls
        if becomes is not None:
            self.count[becomes] = self.count.get(becomes, 0) + calls
        explicit = decided.explicit
        if becomes == "I" or self._guarded & explicit.keys():
            self._exposed.update(row.call_nos)
            for call_no in row.call_nos:
                now = self._wanted.setdefault(call_no, {})
                for name in explicit:
                    now.setdefault(name, (row.conflicts[0].new or {}).get(name))
        for one in answer.records:
            if one.conflict.constraint is not None:
                attempt = Attempt(
                    rule=one.rule,
                    reason=f"{one.resolution.reason}, but that value is taken too",
                )
                for call_no in row.call_nos:
                    self._answered[call_no, one.conflict.constraint] = attempt
        return Settled(
            made=self.context.transaction_of(row.tran),
            verdict=decided,
            answer=answer,
            wanted=dict(wanted),
        )

    def _note_failure(self, row: RowConflicts) -> None:
        """Note an earlier answer to this row as failed: its value is taken too."""
        for conflict in row.conflicts:
            before = self._answered.pop((row.call_no, conflict.constraint or ""), None)
            if before is None:
                continue
            self._draws[row.call_no] += 1
            if before.rule.method == _DRAWING and self._draws[row.call_no] < DRAWS:
                continue
            self._failed.setdefault(row.call_no, []).append(before)

    def _as_wanted(self, row: RowConflicts) -> RowConflicts:
        """The row with the site's own values instead of those that methods computed."""
        wanted = self._wanted.get(row.call_no)
        if not wanted:
            return row
        return replace(
            row,
            conflicts=tuple(
                one if one.new is None else replace(one, new={**one.new, **wanted})
                for one in row.conflicts
            ),
        )
