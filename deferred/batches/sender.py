"""The two ends of a push: the sending site and its destination."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
