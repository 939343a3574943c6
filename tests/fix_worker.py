"""Real worker and beat processes for tests, with a settings file of their own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest
from redis import Redis

from sites import Directory
from snaptide.application import ORDINARY, queue_of
from snaptide.embedded import RedisServer
from tests.fix_hosts import Host
from tests.forked import Program

ROOT = Path(__file__).resolve().parent.parent

#: More settings, for workers that push when they are asked to, and at no commit.
NOT_LISTENING = "[worker]\nlisten = false\n"

#: Variables that are read when they are needed. Others are for the interpreter, or for
#: what is loaded before it: a process with these has to be begun anew.
_OURS = "SNAPTIDE_"

_numbers = itertools.count()


class WriteSettings(Protocol):
    """Write snaptide.toml for some sites and a broker, and return where it is."""

    def __call__(
        self, directory: Directory, broker: str = "", more: str = ""
    ) -> Path: ...


class Service:
    """One process of the program; what it prints goes to a file."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        environment: dict[str, str],
        enter: Sequence[str] = (),
    ) -> None:
        self.log = folder / f"{arguments[2]}-{next(_numbers)}.log"
        self.log.touch()
        variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        self._process: Program | subprocess.Popen[bytes]
        if not enter and all(name.startswith(_OURS) for name in environment):
            self._process = Program(arguments, folder, variables, self.log)
            return
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*enter, sys.executable, "-m", *arguments],
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def wait_for_line(self, text: str, *, seconds: float = 120) -> None:
        """Wait until the process has printed something."""
        deadline = time.monotonic() + seconds
        while text not in self.printed():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} in:\n{self.printed()}")
            time.sleep(0.05)

    def printed(self) -> str:
        """All that the process has printed."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End the process and its children at once, as `kill -9` does."""
        self._each(psutil.Process.kill)
        self._process.wait(timeout=120)

    def wait_killed(self, *, seconds: float = 120) -> None:
        """Wait until the process has died of SIGKILL."""
        assert self._process.wait(timeout=seconds) == -signal.SIGKILL, self.printed()

    def wait_stopped(self) -> None:
        """Wait until the process stands still, as a fault point lets it."""
        process = psutil.Process(self.pid)
        eventually(
            lambda: process.status() == psutil.STATUS_STOPPED,
            what=f"{self.log.name}: to stand still",
        )

    def halt(self) -> None:
        """Have the process and its children stand still, as if the machine swapped."""
        self._each(psutil.Process.suspend)

    def go_on(self) -> None:
        """Let them go on."""
        self._each(psutil.Process.resume)

    def _each(self, do: Callable[[psutil.Process], None]) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            for one in (process, *process.children(recursive=True)):
                # Any of them may end by itself meanwhile.
                with suppress(psutil.NoSuchProcess):
                    do(one)

    def interrupt(self) -> None:
        """Do as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def code(self, *, seconds: float = 240) -> int:
        """Wait until the process ends by itself; returns its exit code."""
        return self._process.wait(timeout=seconds)

    def ask_to_stop(self) -> None:
        """Have the process end in good order, if it has not ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Wait until the process has ended, as it was asked to."""
        try:
            self._process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.kill()


class Services:
    """Starts workers and beats; all are stopped after the test.

    Parameters:
        config: their `snaptide.toml`.
        host: where they run.
    """

    def __init__(self, config: Path, host: Host | None = None) -> None:
        self.config = config
        self._enter = host.enter if host else ()
        self._made: list[Service] = []

    def worker(self, *options: str, **environment: str) -> Service:
        """A worker that is ready, through Celery's own command."""
        arguments = ["celery", "-A", "snaptide", "worker", "--loglevel=info"]
        made = self._start([*arguments, *options], environment)
        made.wait_for_line(" ready.")
        return made

    def beat(self, **environment: str) -> Service:
        """A beat that has begun to look, through Celery's own command."""
        arguments = ["celery", "-A", "snaptide", "beat", "--loglevel=info"]
        made = self._start(arguments, environment)
        made.wait_for_line("beat: Starting...")
        return made

    def module(self, name: str, *arguments: str, **environment: str) -> Service:
        """A module of Python, as a process."""
        return self._start([name, *arguments], environment)

    def snaptide(self, *arguments: str, **environment: str) -> Service:
        """Any command of the program, as a process."""
        return self._start(["snaptide", "--debug", *arguments], environment)

    def command(self, *arguments: str, **environment: str) -> Service:
        """Any command of the program as people type it, without `--debug`."""
        return self._start(["snaptide", *arguments], environment)

    def stop(self) -> None:
        """Stop what still runs, all of them at once."""
        for one in self._made:
            one.ask_to_stop()
        for one in self._made:
            one.wait()

    def _start(self, arguments: list[str], environment: dict[str, str]) -> Service:
        fixed = {
            "SNAPTIDE_CONFIG": str(self.config),
            # Most tests end before Spark would be there.
            "SNAPTIDE_WORKER__WARM": "false",
        }
        environment = {**fixed, **environment}
        made = Service(arguments, self.config.parent, environment, self._enter)
        self._made.append(made)
        return made


@pytest.fixture
def broker(redis_server: RedisServer) -> str:
    """The URL of an empty Redis database."""
    url = redis_server.url(next(_numbers) % 16)
    with Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def write_settings(tmp_path: Path) -> WriteSettings:
    """A function that writes snaptide.toml."""

    def write(directory: Directory, broker: str = "", more: str = "") -> Path:
        parts = [f'[broker]\nurl = "{broker}"\n'] if broker else []
        for site in directory.values():
            url = site.url.set(drivername="postgresql")
            text = url.render_as_string(hide_password=False)
            parts.append(f'[sites.{site.name}]\nurl = "{text}"\n')
        path = tmp_path / "snaptide.toml"
        path.write_text("\n".join([*parts, more]))
        return path

    return write


@pytest.fixture
def more_settings() -> str:
    """What `services` are told besides sites and broker; a module may say more."""
    return ""


@pytest.fixture
def services(
    sites: Directory, broker: str, write_settings: WriteSettings, more_settings: str
) -> Iterator[Services]:
    """Starts workers and beats for the two sites."""
    started = Services(write_settings(sites, broker, more_settings))
    yield started
    started.stop()


def waiting_tasks(client: Redis, site: str) -> list[dict[str, Any]]:
    """Messages of a site's ordinary tasks that no worker has taken.

    Redis keeps a list for each priority, whose name ends with it.
    """
    waiting: list[Any] = client.lrange(f"{queue_of(site)}\x06\x16{ORDINARY}", 0, -1)
    return [json.loads(one) for one in waiting]


def eventually(
    holds: Callable[[], Any], *, seconds: float = 90, what: str = "it"
) -> Any:
    """Wait until something is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not become true in {seconds:g} seconds")
        time.sleep(0.05)
    return found
