"""Copies rows of one moment into another database, by Spark's tasks in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sites.progress import Progress
from sites.sessions.site import Site
from snapshots.differences import difference
from snapshots.spark.claims import Load

if TYPE_CHECKING:
    from snapshots.spark.load import CopyJob


def run(
    source: Site,
    target: Site,
    jobs: Sequence[CopyJob],
    load: Load,
    progress: Progress | None = None,
) -> int:
    """Copy rows; each job commits by itself, and the load goes on until `claims.end`.

    Parameters:
        jobs: together they copy all rows, each row once.
        load: it has begun. A transaction at the source has exported its moment, and
            stays open meanwhile.

    Returns:
        How many rows were written.

    Raises:
        LoadFailed: a job failed; others may have written.
    """
    # Imported late: most commands do not need Spark, which takes seconds.
    from snapshots.spark.load import copy_ranges

    return copy_ranges(
        difference.session,
        source.libpq_uri(),
        target.libpq_uri(),
        jobs,
        load,
        progress,
    )
