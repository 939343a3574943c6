"""Sending answers to conflicts to the record, many rows in one statement.

The rule and its decision, which most answers share, are sent once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Connection, DateTime, Integer, Text

from masters.apply.detect import SourceTransaction
from masters.apply.resolve import ResolutionRecord, RowResolution, Take
from masters.apply.verdict import Verdict
from masters.resolution import METHODS
from masters.resolution.conflict import Row
from masters.resolution.extremes import Extreme
from masters.resolution.method import value_of
from masters.resolution.order import words
from sites.transfer.values import Numbers, array_text, texts, unnested


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A row whose conflicts were settled, or several that are alike."""

    #: the transaction that changed the row
    made: SourceTransaction
    verdict: Verdict
    answer: RowResolution
    #: the site's values in columns for which a method computed others
    wanted: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionSummary:
    """How conflicts were settled; lists of columns are the texts of arrays."""

    kind: str
    reference: str
    sequence_no: int
    method: str
    decision: str
    columns: str
    #: the columns whose values are not the site's, and those whose values are not the
    #: master's; None if nothing of the call is written
    not_new: str | None
    not_current: str | None


_LINE: Mapping[str, sa.types.TypeEngine[Any]] = {
    "line": Integer(),
    "origin": Text(),
    "transaction": Text(),
    "changed_at": DateTime(timezone=True),
    "deleted_at": DateTime(timezone=True),
    "summary": Integer(),
    "names": Text(),
    "reason": Text(),
    "number": BigInteger(),
    "given": Text(),
    "wanted": Text(),
}


def tables(
    connection: Connection, rows: Sequence[Settled], columns: Sequence[str]
) -> tuple[sa.FromClause, sa.FromClause]:
    """The answers, one line per call and conflict, and the summaries that they name.

    Parameters:
        columns: the columns of the table that the rows carry.
    """
    summaries: dict[ResolutionSummary, int] = {}
    lines: list[tuple[object, ...]] = []
    of_line: list[Numbers] = []
    shapes = _Shapes(columns)
    for row in rows:
        given = _object(connection, row.verdict.explicit)
        wanted = _object(connection, row.wanted)
        for one in row.answer.records:
            summary = shapes.summary(row, one)
            place = summaries.setdefault(summary, len(summaries))
            names, reason = _reason(one)
            call = (
                len(lines),
                row.made.origin,
                row.made.transaction,
                row.made.changed_at,
                one.conflict.deleted_at,
            )
            told = names, reason, one.conflict.number
            lines.append((*call, place, *told, given, wanted))
            of_line.append(row.verdict.call_nos)
    answer = _by_call(of_line, _table("line", _LINE, lines))
    return answer, _summaries(list(summaries))


def _by_call(calls: Sequence[Numbers], lines: sa.FromClause) -> sa.FromClause:
    """The lines, each as often as it has calls.

    The planner knows how many rows come from an array that is not a column's. If it
    took them for few, it would make the images of all rows once for each.
    """
    places = (Numbers.of([place] * len(some)) for place, some in enumerate(calls))
    each = unnested(
        "call",
        {
            "call_no": (BigInteger(), Numbers.together(calls)),
            "line": (Integer(), Numbers.together(places)),
        },
    )
    shared = [c for c in lines.c if c.name != "line"]
    joined = each.join(lines, lines.c.line == each.c.line)
    return sa.select(each.c.call_no, *shared).select_from(joined).subquery("answer")


def _reason(one: ResolutionRecord) -> tuple[str | None, str]:
    """The reason of an answer, and the rows that a delete took along.

    Some methods name two values first, which may differ between rows that are alike.
    The record takes them from its images: it needs only their column and the rest.
    """
    conflict, reason = one.conflict, one.resolution.reason
    if conflict.takes_along and one.resolution.decision.site_wins:
        reason = f"{reason}; it also affected {', '.join(conflict.takes_along)}"
    method, column = (
        METHODS.get(one.rule.method),
        str(one.rule.parameters.get("column")),
    )
    if method is None or not issubclass(method, Extreme):
        return None, reason
    values = value_of(conflict.new, column), value_of(conflict.current, column)
    told = "".join(map(str, words(column, *values)))
    if not reason.startswith(told):
        return None, reason
    return column, reason[len(told) :]


class _Shapes:
    """A cache of summaries: they are few, and each is made once."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._known: dict[tuple[object, ...], ResolutionSummary] = {}

    def summary(self, row: Settled, one: ResolutionRecord) -> ResolutionSummary:
        key = (
            id(one.rule),
            one.resolution.decision,
            one.conflict.columns,
            row.verdict.rebased,
            row.verdict.becomes,
            row.answer.ignored,
            *row.answer.columns,
            *(s if isinstance(s, Take) else "" for s in row.answer.columns.values()),
        )
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._made(row, one)
        return found

    def _made(self, row: Settled, one: ResolutionRecord) -> ResolutionSummary:
        not_new, not_current = self._left_out(row)
        return ResolutionSummary(
            kind=one.conflict.kind.value,
            reference=one.rule.reference,
            sequence_no=one.rule.sequence_no,
            method=one.rule.method,
            decision=one.resolution.decision.name.lower(),
            columns=array_text(one.conflict.columns),
            not_new=not_new,
            not_current=not_current,
        )

    def _left_out(self, row: Settled) -> tuple[str | None, str | None]:
        if row.answer.ignored or row.verdict.becomes == "D":
            return None, None
        if not row.verdict.rebased:
            return array_text(()), array_text(self._columns)
        sources = row.answer.columns
        return (
            array_text(c for c in self._columns if sources.get(c) is not Take.NEW),
            array_text(c for c in self._columns if sources.get(c) is not Take.CURRENT),
        )


def _summaries(summaries: Sequence[ResolutionSummary]) -> sa.FromClause:
    kinds: dict[str, sa.types.TypeEngine[Any]] = {
        name: Integer() if name == "sequence_no" else Text()
        for name in ResolutionSummary.__slots__
    }
    lines = [
        (place, *(getattr(one, name) for name in ResolutionSummary.__slots__))
        for place, one in enumerate(summaries)
    ]
    texts = _table("line_of_summary", {"place": Integer(), **kinds}, lines)
    lists = {"columns", "not_new", "not_current"}
    read = [
        sa.cast(c, sa.ARRAY(Text)).label(c.name) if c.name in lists else c
        for c in texts.c
    ]
    # Otherwise the database reads the lists again for each answer.
    once = sa.select(*read).cte("summary")
    return once.prefix_with("MATERIALIZED", dialect="postgresql")


def _table(
    name: str,
    columns: Mapping[str, sa.types.TypeEngine[Any]],
    lines: Sequence[tuple[object, ...]],
) -> sa.FromClause:
    values = zip(*lines, strict=True)
    return unnested(
        name,
        {
            column: (kind, found)
            for (column, kind), found in zip(columns.items(), values, strict=True)
        },
    )


def _object(connection: Connection, row: Row) -> str | None:
    return json.dumps(texts(connection, row)) if row else None
