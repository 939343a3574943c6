"""Sessions at a server of Spark Connect."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sites import extras
from snapshots.spark import archive

#: What every session of ours has. Times are UTC as in `sites.sessions.settings`.
COMMON = {"spark.sql.session.timeZone": "UTC"}

#: How often a server of Spark Connect is asked again, for 18 seconds in all.
_RETRIES = 5


def start(master: str, settings: Mapping[str, str]) -> SparkSession:
    """Start a session at a server, with settings of Spark by their full names."""
    # Without them PySpark ends the process, with 0.
    extras.require("connect")
    from pyspark.sql.connect.client.retries import DefaultPolicy

    # This asks the server nothing yet. By default a session asks one that is gone for
    # ten minutes, while transactions of a refresh stay open.
    spark: SparkSession = SparkSession.builder.remote(master).getOrCreate()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    try:
        _set_up(spark, settings)
    except BaseException:
        # Otherwise the process asks the server again before it ends.
        spark.client.close()
        raise
    return spark


def _set_up(spark: SparkSession, settings: Mapping[str, str]) -> None:
    # The server's own settings (its application, its redaction) are not ours to set.
    for name, value in COMMON.items():
        spark.conf.set(name, value)
    carried, others = archive.of_session(settings)
    for name, value in others.items():
        spark.conf.set(name, value)
    if carried:
        spark.addArtifacts(*carried, archive=True)


def ask(spark: SparkSession) -> None:
    """Have PySpark find out whether the server still knows a session.

    A server that was started anew knows none of its former ones. Whoever asks one of
    them something gets an error, and the session is stopped from then on.
    """
    with suppress(PySparkException):
        spark.conf.get(*COMMON)
