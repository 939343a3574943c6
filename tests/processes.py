"""Processes of a test's own, to be killed there, that begin without importing much."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from sites import Directory
from tests.forked import CONTEXT, take_over
from tests.let_go import wait_until_let_go

#: How a program that `ended` runs begins.
SITES = """
import json, os
from sites import Directory

sites = Directory(json.loads(os.environ["TEST_SITES"]))
"""

#: How a program begins that takes the Spark session of its test for its own: a Java of
#: its own takes seconds to start. It must be killed: if it ends, it stops the session.
BORROWED = """
import sys
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

gateway = launch_gateway()
context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
SparkContext(
    gateway=gateway,
    jsc=gateway.jvm.JavaSparkContext(context),
    conf=SparkConf(_jconf=context.conf()),
)
"""


class Elsewhere:
    """A function that runs in a process of its own.

    Parameters:
        function: of a module, as its process finds it.
        arguments: of it; they travel by pickle.
        fault: what goes wrong there, as SNAPTIDE_FAULT says it.
    """

    def __init__(
        self, function: Callable[..., object], *arguments: object, fault: str = ""
    ) -> None:
        self._answer, theirs = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(
            target=_run, args=(theirs, function, arguments, fault), daemon=True
        )
        self._process.start()
        theirs.close()

    def end(self, *, seconds: float = 300) -> tuple[int, str]:
        """Wait for it; its exit status, and what it returned or raised."""
        self._process.join(seconds)
        status = self._process.exitcode
        if status is None:
            self._process.kill()
        assert status is not None, f"it does not end in {seconds:g} seconds"
        try:
            return status, self._answer.recv()
        except EOFError:
            return status, "nothing"
        finally:
            self._answer.close()
            self._process.close()


def _run(
    answer: Connection,
    function: Callable[..., object],
    arguments: tuple[object, ...],
    fault: str,
) -> None:
    os.environ["SNAPTIDE_FAULT"] = fault
    try:
        said = str(function(*arguments))
    except BaseException:
        answer.send(traceback.format_exc())
        raise
    answer.send(said)


def ended(
    program: str,
    sites: Directory,
    *arguments: str,
    fault: str = "",
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run a program, which finds its sites in `sites`, until it ends.

    Parameters:
        arguments: of it, in `sys.argv`.
        fault: what goes wrong there, as SNAPTIDE_FAULT says it.
        environment: more variables of the process.
    """
    urls = {
        name: site.url.set(drivername="postgresql").render_as_string(
            hide_password=False
        )
        for name, site in sites.items()
    }
    faults = {"SNAPTIDE_FAULT": fault} if fault else {}
    given = {**os.environ, "TEST_SITES": json.dumps(urls), **faults, **environment}
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder, "stdout"), Path(folder, "stderr")
        source = SITES + program
        done = Elsewhere(_execute, source, arguments, given, printed)
        status, _ = done.end(seconds=600)
        stdout, stderr = (file.read_text() for file in printed)
    return subprocess.CompletedProcess(arguments, status, stdout, stderr)


def _execute(
    source: str,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    printed: tuple[Path, Path],
) -> None:
    """Be the process of a program, which prints to these files."""
    stdout, stderr = printed
    take_over(environment, stdout=stdout, stderr=stderr)
    sys.argv = ["-c", *arguments]
    exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})


def kill(
    program: str,
    sites: Directory,
    *arguments: str,
    fault: str = "",
    borrows_spark: bool = False,
) -> None:
    """Run a program as `ended` does, which has to die of SIGKILL.

    Parameters:
        borrows_spark: it has the test's own Spark session, whose Java survives it; for
            one that dies where Spark has nothing to do.
    """
    borrowed = java_of_this_process() if borrows_spark else {}
    begin = BORROWED if borrows_spark else ""
    done = ended(begin + program, sites, *arguments, fault=fault, **borrowed)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until_let_go(sites.values())


def java_of_this_process() -> dict[str, str]:
    """The variables by which PySpark finds a Java that runs."""
    # Imported late: most tests need neither Spark nor the seconds.
    from snapshots.spark.session import session

    gateway = session().sparkContext._gateway
    assert gateway is not None
    return {
        "PYSPARK_GATEWAY_PORT": str(gateway.java_parameters.port),
        "PYSPARK_GATEWAY_SECRET": gateway.java_parameters.auth_token,
        "PYSPARK_PYTHON": sys.executable,
    }
