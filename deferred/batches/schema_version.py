"""Both ends of a push have to have one version of a group's schema."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from deferred.errors import OtherSchemaVersion
from deferred.queues.queue import Queue
from masters.group_schema import versions


def refuse_other(
    origin: Connection, target: Connection, queues: Sequence[Queue], sender: str
) -> None:
    """Send nothing to a master whose tables have another shape, or from such a one.

    Of a table that is in a group at one side alone nothing is known.

    Raises:
        OtherSchemaVersion: says which of the two is behind.
    """
    shared = [queue for queue in queues if queue.replication_group is not None]
    if not shared:
        return
    here, there = versions(origin), versions(target)
    for queue in shared:
        if queue.base not in here or queue.target not in there:
            continue
        ours, theirs = here[queue.base].version, there[queue.target].version
        if ours != theirs:
            behind = queue.destination if theirs < ours else sender
            raise OtherSchemaVersion(
                f"{behind} is behind: {queue.target} of group"
                f" {queue.replication_group} has schema version {ours} at {sender} and"
                f" {theirs} at {queue.destination}.",
                group=queue.replication_group,
                table=str(queue.target),
                behind=behind,
            )
