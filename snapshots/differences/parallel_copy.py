"""Copies rows of one moment into another database, by Spark's tasks in parallel."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from sites.progress import Progress
from sites.sessions.site import Site
from snapshots.differences import difference
from snapshots.spark import claims

if TYPE_CHECKING:
    from snapshots.spark.load import CopyJob


def run(
    source: Site,
    target: Site,
    jobs: Sequence[CopyJob],
    moment: str,
    load_id: uuid.UUID,
    progress: Progress | None = None,
) -> int:
    """Copy rows; each job commits by itself.

    Parameters:
        jobs: together they copy all rows, each row once.
        moment: exported by a transaction at the source that stays open meanwhile.
        load_id: identifies the copy for `end`.

    Returns:
        How many rows were written.

    Raises:
        LoadFailed: a job failed; others may have written.
    """
    # Imported late: most commands do not need Spark, which takes seconds.
    from snapshots.spark.load import copy_ranges

    return copy_ranges(
        difference.session(),
        source.libpq_uri(),
        target.libpq_uri(),
        jobs,
        moment,
        progress,
        load_id=load_id,
    )


def end(connection: Connection, load_id: uuid.UUID) -> None:
    """Wait for tasks of a broken-off copy that still write, and let no other begin.

    Tasks may outlive the process that started the copy.
    """
    claims.forget(connection, load_id)
