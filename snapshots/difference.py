"""What would make a snapshot equal to its defining query, found by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sites.configured import NotConfigured, configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session() -> SparkSession:
    """The Spark session of this process, as it was configured."""
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
