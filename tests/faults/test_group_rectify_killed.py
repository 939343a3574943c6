"""Rectify of a group dies of kill -9; run again, it ends as if it had not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import deferred
import groups
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.let_go import wait_until_let_go
from tests.linked_table import rows, run
from tests.three_masters import unseen

pytestmark = pytest.mark.usefixtures("spark")

ROOT = Path(__file__).resolve().parents[2]

VICTIM = """
import json, sys
import groups
from groups.rectify import mend
from sites import Directory

mend.PART = 3
directory = Directory(json.loads(sys.stdin.read()))
groups.rectify(directory["hq"], "sales", reference="hq")
"""


def kill_rectify(sites: Directory, fault: str) -> None:
    """Run rectify in a process of its own, that has to die of SIGKILL."""
    urls = {
        s.name: s.url.set(drivername="postgresql").render_as_string(hide_password=False)
        for s in sites.values()
    }
    ended = subprocess.run(
        [sys.executable, "-c", VICTIM],
        input=json.dumps(urls),
        env={**os.environ, "PYTHONPATH": str(ROOT), "SNAPTIDE_FAULT": fault},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    wait_until_let_go(sites.values())


@prepared_once("hq", "lax", "bos")
def sites(sites: Directory) -> None:
    """Six rows of lax differ, behind hq, and bos behind lax; bos lacks one."""
    found_group(sites, "hq", "lax", "bos", via={"lax": "hq", "bos": "lax"})
    run(
        sites["hq"],
        "INSERT INTO orders (id, qty) SELECT n, n FROM generate_series(1, 9) n",
    )
    push_all(sites)
    unseen(
        sites["lax"],
        "UPDATE orders SET qty = 0 WHERE id <= 4",
        "DELETE FROM orders WHERE id = 5",
        "INSERT INTO orders (id, qty) VALUES (10, 0)",
    )
    unseen(sites["bos"], "DELETE FROM orders WHERE id = 6")
    run(sites["bos"], "UPDATE orders SET qty = 90 WHERE id = 9")


@pytest.mark.parametrize(
    "fault",
    [
        "group_rectify.before_commit:kill",
        "group_rectify.before_commit:kill:2",
        "group_rectify.after_part:kill",
        "group_rectify.after_part:kill:2",
        "push.after_cut:kill",
        "push.before_mark:kill",
        "group_rectify.after_push:kill",
        "group_rectify.after_push:kill:2",
    ],
)
def test_killed_at(sites: Directory, fault: str) -> None:
    kill_rectify(sites, fault)
    report = groups.rectify(sites["lax"], GROUP, reference="hq")
    assert (report.unexplained, report.waiting) == (0, 0), report
    push_all(sites)
    assert_masters_equal(sites, "hq", "lax", "bos")
    wanted = [(n, n) for n in range(1, 9)] + [(9, 90)]
    assert [(row[0], row[2]) for row in rows(sites["hq"])] == wanted
    assert all(deferred.list_errors(site) == [] for site in sites.values())
    assert groups.check(sites["bos"], GROUP).equal
    assert groups.rectify(sites["bos"], GROUP, reference="hq").to_mend == 0
