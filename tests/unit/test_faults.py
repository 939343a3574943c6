"""Fault points: off by default, and what SNAPTIDE_FAULT says of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sites import faults
from sites.faults import InjectedFault


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


def test_stopped_process_goes_on_when_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SNAPTIDE_FAULT", "a:stop")
    program = "from sites import faults; faults.point('a'); print('on')"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE
    ) as started:
        _, status = os.waitpid(started.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        started.send_signal(signal.SIGCONT)
        assert started.communicate()[0] == b"on\n"


#: A thread that stops its process at each point that is named, and says so after it.
STOPS = """
import os, sys, threading
from sites import faults
def go():
    for number, name in enumerate(sys.argv[1:]):
        faults.point(name)
        os.write(1, b"%d " % number)
going = threading.Thread(target=go)
going.start()
going.join()
"""


def test_no_thread_does_more_where_it_stops(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not even where the process has others that could be told to."""
    names = [f"p{number}" for number in range(30)]
    monkeypatch.setenv("SNAPTIDE_FAULT", ",".join(f"{name}:stop" for name in names))
    said, expected = tmp_path / "said", ""
    with said.open("wb") as output:
        going = subprocess.Popen([sys.executable, "-c", STOPS, *names], stdout=output)
    try:
        for number in range(len(names)):
            _, status = os.waitpid(going.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert said.read_text() == expected
            going.send_signal(signal.SIGCONT)
            expected += f"{number} "
        assert going.wait() == 0
    finally:
        going.kill()
        going.wait()
    assert said.read_text() == expected


def test_kill_leaves_no_time_for_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPTIDE_FAULT", "a:kill")
    program = "from sites import faults\ntry: faults.point('a')\nfinally: print('no')"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout == b""
