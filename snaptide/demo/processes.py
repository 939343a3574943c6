"""Runs workers, beat and console as processes, as an operator starts them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tenacity import stop_after_delay, wait_fixed

from sites import retry
from snaptide import VARIABLE
from snaptide.demo.errors import DemoFailed
from snaptide.embedded.daemon import Daemon

#: Between two looks while waiting.
_PAUSE = wait_fixed(0.1)

_FAULT = "SNAPTIDE_FAULT"

Found = TypeVar("Found")


class Process:
    """One `snaptide worker`, `beat` or `web`; it may outlive this process."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self._folder = folder
        self._arguments = arguments
        self._daemon = Daemon(folder, name)

    @property
    def log(self) -> Path:
        """The file that the process writes its messages to."""
        return self._daemon.log

    def start(self, config: Path, *, fault: str | None = None) -> int:
        """Start the process and return its id.

        Parameters:
            fault: the point at which it is to die, as `sites.faults` reads it.
        """
        environment = {k: v for k, v in os.environ.items() if k != _FAULT}
        environment[VARIABLE] = str(config)
        if fault is not None:
            environment[_FAULT] = fault
        self._daemon.launch(
            [sys.executable, "-m", "snaptide", *self._arguments],
            cwd=self._folder,
            run_as={"env": environment},
        )
        process = self._daemon.process()
        if process is None:
            raise DemoFailed(f"{self.name} has ended, see {self.log}.")
        return process.pid

    def is_running(self) -> bool:
        """Tell whether the process runs, also if another program started it."""
        return self._daemon.process() is not None

    def wait_killed(self, *, seconds: float) -> None:
        """Wait until the process dies of SIGKILL.

        Raises:
            DemoFailed: the process ends in another way, or not in time.
        """
        status = self._daemon.status(seconds=seconds)
        if status != -signal.SIGKILL:
            how = "still runs" if status is None else f"ended with {status}"
            raise DemoFailed(f"{self.name} {how}, see {self.log}.")

    def stop(self) -> None:
        """Let the process finish its work for up to 15 seconds, then kill it."""
        if not self._daemon.end(signal.SIGTERM, seconds=15):
            self._daemon.kill_tree()


class Processes:
    """All workers, the beat and the console of the demo."""

    def __init__(self, folder: Path, config: Path, sites: Sequence[str]) -> None:
        self._folder, self._config = folder, config
        self.beat = Process(folder, "beat", ["beat"])
        self.worker = Process(folder, "worker", ["worker"])
        #: one worker per site, which the demo makes die
        self.doomed = {
            site: Process(folder, f"worker-{site}", ["worker", "--site", site])
            for site in sites
        }

    def console(self, *arguments: str) -> Process:
        """The console, with options of its command."""
        return Process(self._folder, "console", ["web", *arguments])

    def start(self, process: Process, *, fault: str | None = None) -> int:
        """Start one of them and return its process id."""
        return process.start(self._config, fault=fault)

    def wait(
        self, what: str, question: Callable[[], Found | None], *, seconds: float
    ) -> Found:
        """Repeat the question until it has an answer, while worker and beat run.

        Raises:
            DemoFailed: no answer came in time, or worker or beat has ended.
        """

        def answer() -> Found | None:
            found = question()
            for process in (self.worker, self.beat):
                if not found and not process.is_running():
                    raise DemoFailed(f"{process.name} has ended, see {process.log}.")
            return found

        found = retry.until(answer, stop=stop_after_delay(seconds), wait=_PAUSE)
        if not found:
            raise DemoFailed(f"This did not happen within {seconds:g} seconds: {what}.")
        return found

    def stop(self) -> None:
        """Stop those that run, beat first, because it would enqueue more tasks."""
        for process in (self.console(), self.beat, self.worker, *self.doomed.values()):
            if process.is_running():
                process.stop()
