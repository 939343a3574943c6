"""Rows of one moment, copied by Spark's tasks side by side into another database."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from sites.activity import Progress
from sites.site import Site
from snapshots import difference

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
        jobs: together all rows, each row in one of them.
        moment: exported by a transaction at the source that stays open meanwhile.
        load_id: by which `end` knows the copy.

    Returns:
        How many rows were written.

    Raises:
        LoadFailed: a job failed; others may have written.
    """
    # Imported late: most commands of the program need neither Spark nor its seconds.
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
    """Wait for what a copy that broke off still writes; nothing more comes of it.

    Tasks may outlive the process whose copy they were.
    """
    from snapshots.spark.load import forget

    forget(connection, load_id)
