"""The tutorial is run as it stands, and prints what it says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.fix_db import new_folder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"

#: Made before, and what would go on for ever.
LEFT_OUT = {
    "make .venv",
    ". .venv/bin/activate",
    "mkdir tutorial && cd tutorial",
    "snaptide status --watch",
}
SERVICES = ("snaptide worker", "snaptide beat")

#: What differs from run to run, and what stands for it.
VARIABLE = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?([+-]\d\d)?", "<time>"),
    (r"\b0\d{3}\b", "<revision>"),
    (r"\d+\.\d\d\b", "<seconds>"),
    (r"\d+\.\d s ago", "<seconds> ago"),
)

#: Until a worker has pushed what was committed.
SECONDS = 120


@dataclass(frozen=True)
class Step:
    """A command of the page, and the output that stands below it; None if none does."""

    command: str
    printed: str | None


def steps() -> list[Step]:
    found: list[Step] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.splitlines()
            length = 1
            while not _is_whole("\n".join(lines[:length])):
                length += 1
            printed = "\n".join(lines[length:])
            found.append(Step("\n".join(lines[:length]), printed or None))
    return found


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def compared(text: str) -> str:
    """A text without what differs from run to run, and without room."""
    for pattern, instead in VARIABLE:
        text = re.sub(pattern, instead, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


class Shell:
    """One shell, as somebody who reads the page has it open."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> str:
        """What a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        end = "-- that was all --"
        self._process.stdin.write(f"{command}\nprintf '\\n{end}\\n'\n")
        self._process.stdin.flush()
        lines: list[str] = []
        while (line := self._process.stdout.readline()).strip() != end:
            assert line, f"the shell ended: {lines}"
            lines.append(line)
        return "".join(lines).rstrip("\n")

    def close(self) -> None:
        """End the shell; what runs behind it is ended by its folder."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below a folder that only root can enter: his server is another's."""
    above = new_folder("snaptide-tutorial-")
    above.chmod(0o755)
    yield above
    for process in psutil.process_iter(["cwd", "cmdline"]):
        if str(above) in f"{process.info['cwd']} {process.info['cmdline']}":
            # It may end by itself, after what it belongs to.
            with suppress(psutil.NoSuchProcess):
                process.kill()
    shutil.rmtree(above)


@pytest.fixture
def shell(folder: Path) -> Iterator[Shell]:
    work = folder / "tutorial"
    work.mkdir()
    script = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert script
    (work / "start.py").write_text(_moved(script[1], folder))
    described = re.search(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert described
    (work / "airport.toml").write_text(described[1])
    opened = Shell(work)
    yield opened
    opened.close()


def _moved(text: str, folder: Path) -> str:
    """The page's servers in a folder of their own: others may follow it as well."""
    home = f"__import__('pathlib').Path('{folder}') / 'servers'"
    return re.sub(r"state_folder\(['\"]tutorial['\"]\)", home, text)


@pytest.mark.timeout(900)
def test_the_tutorial_prints_what_it_says(shell: Shell, folder: Path) -> None:
    told = steps()
    assert len(told) > 25
    wrong = []
    for step in told:
        if step.command in LEFT_OUT:
            continue
        if step.command in SERVICES:
            shell.run(f"{step.command} > {step.command.split()[1]}.log 2>&1 &")
            continue
        printed = shell.run(_moved(step.command, folder))
        if step.printed is None:
            assert "Traceback" not in printed, (step.command, printed)
            assert not re.search("^SNP-", printed, re.M), (step.command, printed)
        elif not _agrees(shell, step, printed):
            wrong.append(f"$ {step.command}\n{printed}")
    if wrong:
        pytest.fail("\n\n".join(["Printed otherwise than the page says:", *wrong]))
    for name in ("snaptide.toml", "pg_service.conf"):
        mode = (folder / "tutorial" / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600, name


def _agrees(shell: Shell, step: Step, printed: str) -> bool:
    """Whether the output is the page's, by now or, where others work, in a moment."""
    assert step.printed is not None
    deadline = time.monotonic() + SECONDS
    wanted = compared(step.printed)
    while compared(printed) != wanted:
        # What is only looked at may be looked at again.
        if "SELECT" not in step.command or time.monotonic() > deadline:
            return False
        time.sleep(0.2)
        printed = shell.run(step.command)
    return True
