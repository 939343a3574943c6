"""Rectify dies of kill -9; run again, it comes to the same end as without."""

import pytest

import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, parked, queued, rows, run
from tests.processes import kill
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

VICTIM = """
import sys
import snapshots
from snapshots.rectify import mend

mend.PART = 3
snapshots.rectify(sites["jfk"], reference=sys.argv[1])
"""


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """Four rows that differ, two that only one side has, and a user's change."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT g, 'hq' FROM generate_series(1, 9) g",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    as_refresh(
        jfk,
        "UPDATE public.\"snap$_t\" SET v = 'jfk' WHERE id <= 4",
        'DELETE FROM public."snap$_t" WHERE id = 5',
        "INSERT INTO public.\"snap$_t\" VALUES (10, 'jfk')",
    )
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 9")


WANTED = {
    "master": [(n, "hq") for n in range(1, 9)] + [(9, "mine")],
    "site": [(n, "jfk") for n in range(1, 5)]
    + [(n, "hq") for n in range(6, 9)]
    + [(9, "mine"), (10, "jfk")],
}


EITHER = [
    "rectify.before_commit:kill",
    "rectify.before_commit:kill:2",
    "rectify.after_part:kill",
    "rectify.after_part:kill:2",
    "refresh.after_window:kill",
    "refresh.before_merge_commit:kill",
    "refresh.after_merge:kill",
    "rectify.after_refresh:kill",
]
#: What a refresh and a merge get to once the site's rows are read again.
MASTER = [
    "refresh.after_register:kill",
    "refresh.after_stage:kill",
    "refresh.after_sweep:kill",
    "refresh.before_advance:kill",
    # Of the push before it, which has the user's change.
    "push.before_at_once:kill",
    "push.after_at_once:kill",
]
#: What a push gets to that carries the site's rows to the master.
SITE = [
    "push.after_cut:kill",
    "push.after_commit:kill",
    "push.before_mark:kill",
    "write.after_update:kill",
    "write.after_insert:kill",
]


@pytest.mark.parametrize(
    ("reference", "fault"),
    [("master", one) for one in (*EITHER, *MASTER)]
    + [("site", one) for one in (*EITHER, *SITE)],
)
def test_killed_at(sites: Directory, reference: str, fault: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    kill(VICTIM, sites, reference, fault=fault, borrows_spark=True)
    report = snapshots.rectify(jfk, reference=reference)
    assert (report.unexplained, report.waiting) == (0, 0), report
    # A user's change may be left that a refresh had no reason to push.
    refresh(jfk, "t", push_deferred_rpc=True)
    for site in (hq, jfk):
        assert sorted(rows(site, "t")) == WANTED[reference]
    assert (queued(jfk), parked(hq)) == (0, [])
    assert snapshots.check(jfk).equal
    assert snapshots.rectify(jfk, reference=reference).to_mend == 0
