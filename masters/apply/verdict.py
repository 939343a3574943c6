"""Deciding what becomes of a staged row: one verdict from all answers to its conflicts.

A verdict says whether the row is dropped or which kind of change it is now, which old
values it starts from, and where the value of each column comes from. It is a plain
value: `masters.apply.restage` writes it, for many rows in one statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from masters.apply.detect import RowConflicts
from masters.apply.resolve import Explicit, RowResolution, Source, Take
from masters.resolution.conflict import Kind, Row
from sites.transfer.values import Numbers
from sites.writing.staged import MOVE, UPDATES


class Start(StrEnum):
    """The old values that a change gets."""

    KEPT = "kept"
    #: the master's row as it is now
    CURRENT = "current"
    #: there is no row
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of one staged row, or of several that are alike."""

    call_nos: Numbers
    #: the kind of change that it was
    kind: str
    #: the kind that it is now; None drops it
    becomes: str | None
    start: Start = Start.KEPT
    #: columns in no conflict keep the master's value unless the call changed them
    rebased: bool = False
    #: every snapshot receives the master's row, although nothing is written
    resend: bool = False
    columns: Mapping[str, Source] = field(default_factory=dict)
    #: the values among them that a method computed
    explicit: Row = field(default_factory=dict)


def of_row(
    row: RowConflicts, answer: RowResolution, identity: Sequence[str]
) -> Verdict:
    """The verdict on a row in conflict with the master's row of the same key."""
    dropped = Verdict(
        call_nos=row.call_nos,
        kind=row.kind,
        becomes=None,
        resend=answer.ignored and answer.origin_changed,
    )
    if answer.ignored or row.kind == "N":
        return dropped
    if not row.present:
        if row.kind == "D":
            return dropped
        return _verdict(row, answer, "I", Start.NOTHING)
    if row.kind in UPDATES:
        stays = row.alone and all(s is Take.CURRENT for s in answer.columns.values())
        becomes = None if stays and row.kind != MOVE else row.kind
        return _verdict(row, answer, becomes, Start.CURRENT, rebased=True)
    if row.kind in ("D", "R"):
        return _verdict(row, answer, row.kind, Start.CURRENT)
    if _touches(answer, identity):
        return _verdict(row, answer, "I", Start.KEPT)
    return _verdict(row, answer, "U", Start.CURRENT)


def of_constraint(
    row: RowConflicts, answer: RowResolution, identity: Sequence[str]
) -> Verdict | str:
    """The verdict on a row whose new values break a constraint on other columns.

    Returns:
        The reason instead of a verdict, if the answer would still break the constraint.
    """
    if answer.ignored:
        return Verdict(call_nos=row.call_nos, kind=row.kind, becomes=None)
    for conflict in row.conflicts:
        if not _touches(answer, conflict.columns):
            return f"the site's values would still break {conflict.constraint}"
    if row.kind == "I":
        return _verdict(row, answer, "I", Start.KEPT)
    if _touches(answer, identity) and row.kind != MOVE:
        return "a rule cannot change the key of an existing row"
    if row.kind in UPDATES:
        return _verdict(row, answer, row.kind, Start.CURRENT, rebased=True)
    return _verdict(row, answer, row.kind, Start.KEPT)


def _verdict(
    row: RowConflicts,
    answer: RowResolution,
    becomes: str | None,
    start: Start,
    *,
    rebased: bool = False,
) -> Verdict:
    columns = answer.columns
    computed = {n: s for n, s in columns.items() if isinstance(s, Explicit)}
    if not rebased or row.conflicts[0].kind is Kind.UNIQUENESS:
        # The whole row is the site's, except values that a method computed.
        columns = computed
    return Verdict(
        call_nos=row.call_nos,
        kind=row.kind,
        becomes=becomes,
        start=start,
        rebased=rebased,
        columns=columns,
        explicit={name: source.value for name, source in computed.items()},
    )


def _touches(answer: RowResolution, columns: Sequence[str]) -> bool:
    return any(isinstance(answer.columns.get(name), Explicit) for name in columns)
