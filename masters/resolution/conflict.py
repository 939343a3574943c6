"""The input and the answer of a resolution method: plain values.

A conflict is not an exception. The master finds it and hands it to the rules of its
column group or constraint; it ends with a decision or in the error queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum

#: One row: column names and Python values, as psycopg gives them. Infinite
#: dates and timestamps are `date.min`, `date.max`, `datetime.min`, `datetime.max`.
#: Custom routines get whole rows; other methods only the columns that the rules read.
Row = Mapping[str, object]


class Kind(StrEnum):
    """The three conflicts of Oracle's advanced replication."""

    #: the current row differs from the old values, in one column group
    UPDATE = "update"
    #: the new values break a unique constraint of the master
    UNIQUENESS = "uniqueness"
    #: the row is gone, the row to delete has changed, or a change takes others along
    DELETE = "delete"


class Decision(Enum):
    """What a method decides; the numbers are those of Virtuoso's resolvers."""

    #: the next rule in sequence is asked
    UNDECIDED = 0
    #: the site's values are applied, with the method's changes to them
    SITE_WINS = 1
    #: the same, and the change counts as the master's
    SITE_WINS_ORIGIN_CHANGED = 2
    #: the master's values stay; in a delete conflict snapshots receive its row again
    MASTER_WINS = 3
    #: no rule may decide: the whole transaction waits in the error queue
    REJECT = 4
    #: the call is dropped: nothing of it is written in this row
    IGNORE = 5

    @property
    def site_wins(self) -> bool:
        """Whether the site's values are applied, changed or not."""
        return self in (Decision.SITE_WINS, Decision.SITE_WINS_ORIGIN_CHANGED)


#: The subject of a conflict: its kind, and its column group or constraint.
Subject = tuple[Kind, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One disagreement between a deferred call and the master's row.

    A row can have several: one for each column group and unique constraint.
    """

    kind: Kind
    #: schema and name of the master table
    table: tuple[str, str]
    #: in an update conflict; None is the shadow group, which has no rules
    column_group: str | None = None
    #: name of the violated constraint, in a uniqueness conflict
    constraint: str | None = None
    #: the columns to decide: those of the group or the constraint, or all of a row
    columns: tuple[str, ...]
    #: the site's row before its change, None for an insert
    old: Row | None
    #: the site's row after its change, None for a delete
    new: Row | None
    #: the master's row (for uniqueness, the one in the way), None when gone
    current: Row | None
    #: name of the site where the change was made
    origin: str
    #: name of the master that decides
    master: str
    #: when the change was made at the site, if the method asks for it
    changed_at: datetime | None = None
    #: when the master deleted the row that is gone, if the method asks for it
    deleted_at: datetime | None = None
    #: the newest timestamp that the transaction wrote, if a rule judges it as a whole
    newest: object = None
    #: rows that refer to this row: the transaction does not name them, and a foreign
    #: key of the master would take them along; as text
    takes_along: tuple[str, ...] = ()
    #: the columns that an update changes, if it takes rows along, or gives another key
    #: to what may be another row by now: only these columns are decided
    changes: tuple[str, ...] = ()
    #: a number that this master has drawn for no other conflict, for append sequence
    number: int | None = None

    @property
    def subject(self) -> Subject:
        """The subject that rules for it have; a delete conflict concerns the table."""
        return self.kind, self.column_group or self.constraint


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The answer of a method to one conflict."""

    decision: Decision
    #: values that replace the site's, for single columns of the conflict
    values: Row = field(default_factory=dict)
    #: why, in words; always given when undecided
    reason: str = ""


def undecided(reason: str) -> Resolution:
    """The answer that passes a conflict on to the next rule."""
    return Resolution(decision=Decision.UNDECIDED, reason=reason)


def rubbish(answer: object, conflict: Conflict) -> str | None:
    """Say what is wrong with a routine's answer; None if nothing is.

    Values are allowed only if the site wins, and only for the conflict's columns.
    """
    if not isinstance(answer, Resolution):
        return f"returned {type(answer).__name__}, not a Resolution"
    if not isinstance(answer.decision, Decision):
        return f"returned the decision {answer.decision!r}, which does not exist"
    if not isinstance(answer.values, Mapping):
        return f"returned {type(answer.values).__name__} as values, not a mapping"
    unknown = [repr(name) for name in answer.values if name not in conflict.columns]
    if unknown:
        return f"returned values for unknown columns: {', '.join(unknown)}"
    if answer.values and not answer.decision.site_wins:
        return f"returned values with {answer.decision.name.lower()}"
    return None
