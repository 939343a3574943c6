"""Fault points: off by default, and what SNAPTIDE_FAULT says of them."""

import signal
import subprocess
import sys
import time

import pytest

from sites import faults
from sites.faults import InjectedFault


@pytest.fixture(autouse=True)
def fresh_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_hits", type(faults._hits)())


def test_point_does_nothing_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SNAPTIDE_FAULT", raising=False)
    faults.point("push.after_ship")
    monkeypatch.setenv("SNAPTIDE_FAULT", "push.after_cut:error")
    faults.point("push.after_ship")


def test_error_is_raised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPTIDE_FAULT", "a:error")
    with pytest.raises(InjectedFault, match="a"):
        faults.point("a")
    faults.point("a")


def test_nth_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPTIDE_FAULT", "b:error,a:error:3")
    faults.point("a")
    faults.point("a")
    with pytest.raises(InjectedFault):
        faults.point("a")
    with pytest.raises(InjectedFault):
        faults.point("b")


def test_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPTIDE_FAULT", "a:sleep=0.05")
    begun = time.monotonic()
    faults.point("a")
    assert time.monotonic() - begun >= 0.05


def test_kill_leaves_no_time_for_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPTIDE_FAULT", "a:kill")
    program = "from sites import faults\ntry: faults.point('a')\nfinally: print('no')"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout == b""
