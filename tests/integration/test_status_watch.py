"""`snaptide status --watch` in a terminal: it renews itself until Ctrl-C."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from select import select

import pytest

from sites import Directory
from tests.fix_worker import ROOT, WriteSettings, eventually
from tests.linked_table import link, run


class Terminal:
    """A terminal in which a command runs."""

    def __init__(self, config: Path, *words: str) -> None:
        self._mine, its = pty.openpty()
        given = {"SNAPTIDE_CONFIG": str(config), "PYTHONPATH": str(ROOT)}
        self.command = subprocess.Popen(
            [sys.executable, "-m", "snaptide", *words],
            stdin=its,
            stdout=its,
            stderr=its,
            env={**os.environ, **given, "TERM": "xterm", "COLUMNS": "150"},
            start_new_session=True,
        )
        os.close(its)
        self._shown = ""

    def shows(self, text: str) -> bool:
        """Whether the text has come since the last one that was seen."""
        while select([self._mine], [], [], 0.1)[0]:
            self._shown += os.read(self._mine, 65_536).decode(errors="replace")
        found = text in self._shown
        if found:
            self._shown = ""
        return found

    def close(self) -> None:
        """End the command, if it has not ended."""
        self.command.kill()
        self.command.wait()
        os.close(self._mine)


@pytest.fixture
def terminal(sites: Directory, write_settings: WriteSettings) -> Iterator[Terminal]:
    link(sites, "orders", "id int PRIMARY KEY")
    opened = Terminal(write_settings(sites), "status", "--watch", "--every", "0.2")
    yield opened
    opened.close()


def test_what_changes_is_shown_until_it_is_interrupted(
    sites: Directory, terminal: Terminal
) -> None:
    eventually(lambda: terminal.shows("jfk"), what="jfk to be shown")
    failed = "UPDATE snaptide.destination SET last_error = 'the line is cut'"
    run(sites["jfk"], failed)
    eventually(lambda: terminal.shows("the line is cut"), what="the error to be shown")
    terminal.command.send_signal(signal.SIGINT)
    assert terminal.command.wait(timeout=60) == 130
