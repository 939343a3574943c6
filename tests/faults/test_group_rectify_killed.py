"""Rectify of a group dies of kill -9; run again, it ends as if it had not."""

import pytest

import deferred
import groups
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.linked_table import rows, run
from tests.processes import kill
from tests.three_masters import unseen

pytestmark = pytest.mark.usefixtures("spark")

VICTIM = """
import groups
from groups.rectify import mend

mend.PART = 3
groups.rectify(sites["hq"], "sales", reference="hq")
"""


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
    kill(VICTIM, sites, fault=fault, borrows_spark=True)
    report = groups.rectify(sites["lax"], GROUP, reference="hq")
    assert (report.unexplained, report.waiting) == (0, 0), report
    push_all(sites)
    assert_masters_equal(sites, "hq", "lax", "bos")
    wanted = [(n, n) for n in range(1, 9)] + [(9, 90)]
    assert [(row[0], row[2]) for row in rows(sites["hq"])] == wanted
    assert all(deferred.list_errors(site) == [] for site in sites.values())
    assert groups.check(sites["bos"], GROUP).equal
    assert groups.rectify(sites["bos"], GROUP, reference="hq").to_mend == 0
