"""Clocks that tests can set: a server's, and that of a worker's machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from masters.contracts import even_time
from sites import Directory, configured
from sites.configured import Configuration
from snaptide.embedded import PostgresServer
from tests.fix_db import QUIET_SETTINGS, new_folder

FILE = "clock"


class Clock:
    """Sets the clock of the server that was started with it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def set(self, ahead: timedelta) -> None:
        """Let it be so much later than it is; or earlier."""
        self._file.write_text(f"{ahead.total_seconds():+.0f}\n")


@pytest.fixture
def clock(server_with_clock: PostgresServer) -> Iterator[Clock]:
    """The clock of that server; it is right before and after the test."""
    made = Clock(server_with_clock.folder / FILE)
    yield made
    made.set(timedelta(0))


class Machine:
    """How long the machine of a worker has run, as the test wants."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def passes(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.seconds += seconds

    def reading(self) -> tuple[str, float]:
        """What `masters.contracts.even_time.reading` says then."""
        return "machine", self.seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine of the workers of this test, which are set up for no site."""
    made = Machine()
    monkeypatch.setattr(even_time, "reading", made.reading)
    ours = Configuration(directory=Directory({}))
    monkeypatch.setattr(configured, "_current", ours)
    return made


@pytest.fixture(scope="session")
def server_with_clock(pg_version: int) -> Iterator[PostgresServer]:
    """A PostgreSQL server of this run that believes in a clock of the tests'."""
    folder = new_folder("snaptide-pg-")
    Clock(folder / FILE).set(timedelta(0))
    server = PostgresServer(folder, pg_version, settings=QUIET_SETTINGS)
    with faked_time(folder):
        server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@contextmanager
def faked_time(folder: Path) -> Iterator[None]:
    """A server that is started in the block believes in the clock in this folder."""
    spec = find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("FAKETIME_TIMESTAMP_FILE", str(folder / FILE))
        patch.setenv("FAKETIME_NO_CACHE", "1")
        # Waiting goes on as ever: only what o'clock it is changes.
        patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        yield
