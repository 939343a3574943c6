"""The browser of the console's tests, where it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import chromium

ROOT = Path(__file__).parents[2]


def test_where_nothing_can_be_installed_one_line_says_what_to_do(
    tmp_path: Path,
) -> None:
    without = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chromium"],
        cwd=ROOT,
        env=without,
        capture_output=True,
        text=True,
    )
    if Path(chromium.NAMES[-1]).exists():
        pytest.skip("it has a place that is found without a path")
    assert done.returncode == 1
    assert done.stderr == f"{chromium.MISSING}\n"


def test_nobody_but_root_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(chromium, "NAMES", ())
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    assert chromium.provide() is None


def test_what_is_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "NAMES", ("no-such-browser", "python3"))
    assert chromium.provide() == shutil.which("python3")
