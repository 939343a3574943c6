"""Where a transaction comes from: the site where it was made, and who sends it now.

A transaction that a master sends on keeps the site where it was made as its origin, and
by id of a replication group the master at which it began.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, false, func
from sqlalchemy.dialects.postgresql import JSONB

from deferred.batches.batch import QueuedTransaction
from deferred.options import ErrorAction
from deferred.queues.queue import Queue
from sites import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Where the transactions of a push come from, and where they go."""

    id: uuid.UUID
    name: str
    master: str
    #: by table, the replication groups that the sender pushes as one of their masters
    groups: Mapping[QualifiedName, uuid.UUID] = field(default_factory=dict)
    #: by table, what the push does with transactions that cannot be applied
    error_actions: Mapping[QualifiedName, ErrorAction] = field(default_factory=dict)

    def pushing(self, queues: Sequence[Queue]) -> Sender:
        """This sender, with what its queues to the destination say of their tables."""
        return replace(
            self,
            groups={
                queue.target: queue.group_id
                for queue in queues
                if queue.group_id is not None
            },
            error_actions={
                queue.target: ErrorAction(queue.error_action)
                for queue in queues
                if queue.error_action != ErrorAction.QUEUE
            },
        )

    def action(
        self, tables: Iterable[QualifiedName], asked: ErrorAction
    ) -> ErrorAction:
        """What the push does with a failed transaction that changes these tables.

        Parameters:
            asked: the push's own option; it overrides the actions of groups.
        """
        if asked is not ErrorAction.QUEUE:
            return asked
        of_groups = {self.error_actions.get(table, asked) for table in tables}
        return next((a for a in reversed(ErrorAction) if a in of_groups), asked)

    def sources(
        self, transaction: QueuedTransaction, groups: Iterable[uuid.UUID]
    ) -> dict[str, str]:
        """By id of a group, the master at which a transaction began.

        Parameters:
            groups: those that the sender pushes as one of their masters. In any other
                group the transaction begins at the destination.
        """
        known = dict(transaction.sources or {})
        return dict.fromkeys(map(str, groups), self.name) | {
            group: source or self.name for group, source in known.items()
        }


#: A key beside the groups: the masters that have set aside these rows of a transaction.
_PART = ""


def part(sources: Mapping[str, str] | None) -> str:
    """Which part of a transaction this is; '' is the part that was not set aside."""
    return (sources or {}).get(_PART, "")


def by_group(sources: Mapping[str, str] | None) -> dict[str, str]:
    """By id of a group, the master at which a transaction began."""
    return {group: at for group, at in (sources or {}).items() if group != _PART}


def set_aside(sources: Mapping[str, str], at: str) -> dict[str, str]:
    """The sources for rows that are parked while the rest of them is applied.

    After a retry, these rows go on by themselves; the mark keeps other masters from
    taking them for a second arrival of the rest.

    Parameters:
        at: the master where they are parked.
    """
    before = sources.get(_PART)
    return {**sources, _PART: f"{before}/{at}" if before else at}


def began_at_a_master(sources: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a transaction began at a master of a group, by its stored sources."""
    groups = sources.op("-")(cast(_PART, Text))
    return func.coalesce(groups != cast({}, JSONB), false())


def facts(
    *,
    origin: str,
    transaction: str,
    user: str,
    made_at: datetime | None,
    began_at: Mapping[str, str] | None,
) -> Mapping[str, object]:
    """The facts that a destination's queues store about a transaction that goes on.

    Parameters:
        origin: the site where it was made.
        transaction: its id there; `user` and `made_at` are from there too.
        began_at: by id of a group, the master at which it began.
    """
    return {
        "origin": origin,
        "transaction": transaction,
        "user": user,
        "made_at": made_at and made_at.isoformat(),
        "sources": began_at or {},
    }
