"""Processes of tests that are forked from one which has imported all that they need."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: They are forked from one that has imported all this: it takes seconds each time.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("tests.campaign.bank", "tests.campaign.group_verbs"),
        # The second brings Pandas, which a context asks for.
        *("pyspark.sql.classic.dataframe", "pyspark.testing", "pyarrow.dataset"),
        *("snapshots.spark.session", "snapshots.spark.diff", "snapshots.spark.load"),
        *("snapshots.refreshing.refresh", "snapshots.rectify.run"),
        *("snapshots.images.make", "snapshots.images.load", "groups.rectify.run"),
        *("celery.bin.celery", "celery.apps.worker", "celery.apps.beat"),
        *("celery.concurrency.prefork", "kombu.transport.redis"),
        *("snaptide.cli", "snaptide.worker", "snaptide.beat", "snaptide.work"),
    ]
)


class Program:
    """A module that runs as `python -m` runs it; of `subprocess.Popen`, what tests use.

    Parameters:
        arguments: the module, and its arguments.
        folder: where it runs.
        environment: its variables, which it must not need before it imports anything.
        log: where it prints.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        self._process = CONTEXT.Process(
            target=_run_module, args=(arguments, folder, dict(environment), log)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait for its end; the exit status."""
        self._process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired("python -m", timeout)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _run_module(
    arguments: Sequence[str], folder: Path, environment: dict[str, str], log: Path
) -> None:
    """Be the process of a module, with a session of its own."""
    os.setsid()
    os.chdir(folder)
    take_over(environment, stdout=log, stderr=log)
    module, *rest = arguments
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def take_over(environment: Mapping[str, str], *, stdout: Path, stderr: Path) -> None:
    """Give this process these variables, nothing to read, and files to print to."""
    for number, file in enumerate((Path(os.devnull), stdout, stderr)):
        with file.open("ab" if number else "rb") as stream:
            os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
