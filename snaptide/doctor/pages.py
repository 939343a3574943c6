"""Checks for queues that an older version made, where two images must fit a page."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from deferred.queues.queue import Queue, list_queues
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.tables import wide
from sites.tables.table import find_table
from snaptide.doctor.finding import Finding, warning


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about queues in which updates of long rows fail."""
    # A queue with several destinations is one table.
    for queue in {one.snapshot: one for one in list_queues(connection)}.values():
        if _may_overflow(connection, queue):
            yield warning(
                site,
                queue.snapshot,
                "An older version created its queue: an UPDATE fails if the old "
                "and the new row together fill more than a page.",
                f"Push, then drop snapshot {queue.snapshot} and create it again.",
            )


def _may_overflow(connection: Connection, queue: Queue) -> bool:
    base = find_table(connection, queue.base)
    if base is None:
        return False
    there = [name for name in queue.columns if name in base.names]
    stored = QualifiedName(SCHEMA, queue.queue_table)
    return wide.overflows(base, there) and not wide.is_wide(connection, stored)
