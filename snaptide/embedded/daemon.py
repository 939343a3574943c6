"""Starts, finds and ends a server process that may outlive the program."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
from tenacity import stop_after_delay, wait_fixed

from sites import retry
from snaptide.embedded.errors import EmbeddedServerError
from snaptide.embedded.ports import kept_port

# Children of this program. Kept so that they are reaped, and so that Python does not
# warn when it drops the object of a server that is meant to live on.
_children: list[subprocess.Popen[bytes]] = []


#: The clock may be set by so many seconds while a server runs.
CLOCK_SET = 60

#: Between two looks at a process.
PAUSE = wait_fixed(0.02)


class Daemon:
    """One process, found again through a file with its number and start time."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._file = folder / f"{name}.pid"
        self._child: subprocess.Popen[bytes] | None = None

    def process(self) -> psutil.Process | None:
        """Return the running process, also if another program started it, or None."""
        for child in _children:
            child.poll()
        try:
            number, born = self._file.read_text().split()
            process = psutil.Process(int(number))
            # The system reuses a number, but not with the same start time. Setting the
            # clock moves the start time.
            same = abs(process.create_time() - float(born)) < CLOCK_SET
            alive = process.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return process if same and alive else None

    def launch(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        run_as: Mapping[str, object],
    ) -> None:
        """Start the command in a session of its own, its output going to the log."""
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C must reach only the program in front, which stops its servers.
                start_new_session=True,
                **run_as,  # type: ignore[call-overload]
            )
        _children.append(child)
        self._child = child
        born = psutil.Process(child.pid).create_time()
        self._file.write_text(f"{child.pid} {born}")

    def wait_until(self, answers: Callable[[], bool], *, seconds: float) -> None:
        """Wait until the server answers; if it does not, raise the end of its log."""

        def answered() -> bool:
            if answers():
                return True
            if self.process() is None:
                raise self._failure("ended while starting")
            return False

        if not retry.until(answered, stop=stop_after_delay(seconds), wait=PAUSE):
            raise self._failure(f"did not answer within {seconds:g} seconds")

    def status(self, *, seconds: float) -> int | None:
        """Wait for the process that this object launched to end, and return its status.

        Returns:
            None if it still runs; minus the signal's number if a signal killed it.
        """
        if self._child is None:
            return None
        try:
            return self._child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self, signal: int, *, seconds: float) -> bool:
        """Send a signal, wait for the process to end, and tell whether it ended."""
        process = self.process()
        if process is None:
            return True
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal)
        return retry.until(
            lambda: self.process() is None, stop=stop_after_delay(seconds), wait=PAUSE
        )

    def kill_tree(self) -> None:
        """End the process and its children at once, with no chance to tidy up."""
        process = self.process()
        if process is None:
            return
        # Kill the parent first, or it would start its children again.
        family = [process, *process.children(recursive=True)]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        _wait_dead(family)

    def _failure(self, what: str) -> EmbeddedServerError:
        lines = self.log.read_text(errors="replace").splitlines()[-10:]
        return EmbeddedServerError(
            "\n".join([f"{self.name} {what}; its log ends with:", *lines]),
            hint=f"The whole log is {self.log}.",
        )


class Server:
    """An embedded server; its folder holds its port, its log and what it keeps."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = Path(folder).absolute()
        self._port_file = self.folder / "port"
        self._daemon = Daemon(self.folder, name)

    @property
    def log(self) -> Path:
        """The file that the server writes its messages to."""
        return self._daemon.log

    @property
    def port(self) -> int:
        """The port on 127.0.0.1, the same after every restart."""
        return kept_port(self._port_file)

    def is_running(self) -> bool:
        """Tell whether the server runs, also if another program started it."""
        return self._daemon.process() is not None

    def kill(self) -> None:
        """Kill the server, as a power cut would, to test recovery."""
        self._daemon.kill_tree()


def _wait_dead(family: Sequence[psutil.Process]) -> None:
    """Wait until killed processes are gone or are zombies."""
    for member in family:
        retry.until(partial(_is_dead, member), wait=wait_fixed(0.005))


def _is_dead(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
