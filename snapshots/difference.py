"""What would make a snapshot equal to its defining query, found by Spark."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sites.configured import NotConfigured, configured


def session() -> Any:
    """The Spark session of this process, as it was configured.

    Its type is known to `snapshots.spark` alone.
    """
    # Imported late: most commands of the program need neither Spark nor its seconds.
    from snapshots.spark.session import session as start

    try:
        settings = configured()
    except NotConfigured:
        return start()
    return start(settings.spark_master, **settings.spark_conf)


def small(
    master: pa.Table, present: pa.Table, key: list[str], columns: list[str]
) -> pa.Table:
    """Compare images that this process holds; see `snapshots.spark.diff`.

    Two empty sides start no session.
    """
    from snapshots.spark import diff

    if not master.num_rows and not present.num_rows:
        return diff.empty(master.schema, columns)
    return diff.small(session(), master, present, key, columns)


@dataclass(frozen=True, slots=True)
class Side:
    """Images that executors read: from where, by which queries, at which moment."""

    uri: str
    queries: list[str]
    moment: str


@dataclass(frozen=True, slots=True)
class Target:
    """The stage that executors write to, at the site of the present images."""

    schema: str
    table: str
    load_id: uuid.UUID


def staged(
    master: Side, present: Side, shape: pa.Schema, key: list[str], target: Target
) -> dict[str, int]:
    """Compare images that executors read, and have them stage the difference.

    A row of the master may be read by two ways; it counts once.

    Returns:
        The attempts whose rows count, with how many rows each has written.
    """
    from snapshots.spark import diff, source

    spark = session()
    theirs, ours = (
        source.read_ranges(spark, side.uri, side.queries, shape, side.moment)
        for side in (master, present)
    )
    found = diff.diff(theirs.dropDuplicates(key), ours, key, shape.names)
    written = source.write_stage(
        found, present.uri, target.schema, target.table, target.load_id
    )
    return {attempt.id: attempt.rows for attempt in written}
