"""Ctrl-C ends a push between two commits, however many destinations it has."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import deferred
from sites import Directory, Site
from tests.fix_worker import WriteSettings, eventually
from tests.let_go import wait_until_let_go
from tests.linked_table import link, rows, run

ROOT = Path(__file__).parents[2]

#: Seconds that a push waits for more, far longer than its end is waited for.
LONG = 3600


def begun(site: Site) -> bool:
    """Whether all pushes have delivered what there was, and wait for more."""
    return run(
        site,
        "SELECT count(*) FILTER (WHERE answered >= order_no)"
        " = (SELECT count(*) FROM snaptide.destination)"
        " FROM snaptide.delivery d LEFT JOIN snaptide.batch b"
        " ON b.destination = d.destination AND b.number = d.batch",
    ) == [(True,)]


#: The program, in a process that loses the interrupt which it gets while it waits.
LOSES = """
import signal, time
from snaptide.cli import app

class Lost:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

sleep = time.sleep

def interrupted(seconds):
    time.sleep = sleep
    Lost()
    sleep(seconds)

time.sleep = interrupted
app(prog_name="snaptide")
"""


def push(settings: Path, *python: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, *python, "--config", str(settings)),
            *("push", "jfk", "--delay-seconds", str(LONG)),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def fork(make_sites: Callable[..., Directory], masters: list[str]) -> Directory:
    """One site with a change for each of its masters."""
    sites = make_sites("jfk", *masters)
    for number, name in enumerate(masters):
        table = f"t{number}"
        link({"hq": sites[name], "jfk": sites["jfk"]}, table, "id int PRIMARY KEY")
        run(
            sites["jfk"],
            f"UPDATE snaptide.route r SET destination = '{name}'"
            " FROM snaptide.queue q WHERE q.id = r.queue_id"
            f" AND q.target_table = '{table}'",
            "INSERT INTO snaptide.destination (name, window_end)"
            f" VALUES ('{name}', pg_current_snapshot()) ON CONFLICT DO NOTHING",
        )
        run(sites["jfk"], f"INSERT INTO {table} VALUES (1)")
    return sites


@pytest.mark.parametrize("masters", [["hq"], ["hq", "lon"]])
def test_interrupted_push_ends(
    fork: Directory, write_settings: WriteSettings, masters: list[str]
) -> None:
    with push(write_settings(fork), "-m", "snaptide") as pushing:
        try:
            eventually(lambda: begun(fork["jfk"]), what="the wait for more")
            pushing.send_signal(signal.SIGINT)
            _, said = pushing.communicate(timeout=90)
        finally:
            pushing.kill()
    assert pushing.returncode not in (0, -signal.SIGKILL)
    assert "Traceback" not in said
    wait_until_let_go(fork.values())
    # Nothing is locked; the next one goes on.
    for number, name in enumerate(masters):
        assert rows(fork[name], f"t{number}") == [(1,)]
        run(fork["jfk"], f"INSERT INTO t{number} VALUES (2)")
        assert deferred.push(fork["jfk"], name).transactions == 1


@pytest.mark.parametrize("masters", [["hq"]])
def test_interrupt_that_python_loses_ends_the_push(
    fork: Directory, write_settings: WriteSettings
) -> None:
    """As it does where a signal comes within a destructor."""
    with push(write_settings(fork), "-c", LOSES) as pushing:
        try:
            _, said = pushing.communicate(timeout=90)
        finally:
            pushing.kill()
    assert pushing.returncode not in (0, -signal.SIGKILL)
    assert "Traceback" not in said
    assert rows(fork["hq"], "t0") == [(1,)]
