"""A writer keeps a transaction open while others are pushed and refreshed.

A position by number or time would leave what he commits behind it, for ever.
"""

import pytest

import deferred
import masters
import snapshots
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import (
    adding_up,
    assert_equal_to_master,
    push_and_refresh,
    refresh,
    user,
)

pytestmark = pytest.mark.usefixtures("spark")

SUM = "SELECT sum(n)::int FROM public.t"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    adding_up(sites["hq"], sites["jfk"], 9)


def test_late_commit_at_the_master(hq, jfk):
    with user(hq) as late:
        late.execute("UPDATE public.t SET n = n + 1 WHERE id IN (1, 2)")
        late.execute("INSERT INTO public.t VALUES (10, 1)")
        late.execute("DELETE FROM public.t WHERE id = 3")
        for number in (4, 5):
            run(hq, f"UPDATE public.t SET n = n + 1 WHERE id = {number}")
            assert refresh(jfk, "t")["t"].window_keys == 1
            masters.purge_snapshot_logs(hq)
        assert run(jfk, SUM) == [(2,)]
        late.commit()
    report = refresh(jfk, "t")["t"]
    assert (report.inserted, report.updated, report.deleted) == (1, 2, 1)
    assert_equal_to_master(jfk)
    # Read once: the next refresh does not find it again.
    assert refresh(jfk, "t")["t"].window_keys == 0


def test_late_commit_at_the_site(hq, jfk):
    with user(jfk) as late:
        late.execute("UPDATE public.t SET n = n + 1 WHERE id IN (1, 2)")
        late.execute("INSERT INTO public.t VALUES (10, 1)")
        for number in (4, 5):
            run(jfk, f"UPDATE public.t SET n = n + 1 WHERE id = {number}")
            assert deferred.push(jfk).transactions == 1
            refresh(jfk, "t")
            deferred.purge(jfk)
        assert run(hq, SUM) == [(2,)]
        late.commit()
    assert deferred.push(jfk).transactions == 1
    assert deferred.push(jfk).transactions == 0
    refresh(jfk, "t")
    # Added up, so that what arrived twice would show.
    assert run(hq, SUM) == run(jfk, SUM) == [(5,)]
    assert_equal_to_master(jfk)


def test_late_commits_at_both_while_everything_runs(hq, jfk):
    with user(jfk) as here, user(hq) as there:
        here.execute("UPDATE public.t SET n = n + 1 WHERE id = 1")
        there.execute("UPDATE public.t SET n = n + 10 WHERE id = 2")
        for number in (4, 5):
            run(jfk, f"UPDATE public.t SET n = n + 1 WHERE id = {number}")
            run(hq, f"UPDATE public.t SET n = n + 10 WHERE id = {number + 2}")
            snapshots.refresh(jfk, "t")
        here.commit()
        snapshots.refresh(jfk, "t")
        there.commit()
    # The same row at both: the site's change adds up with the master's.
    run(jfk, "UPDATE public.t SET n = n + 1 WHERE id = 2")
    assert push_and_refresh(jfk, "t").conflicts_resolved == 1
    snapshots.refresh(jfk, "t")
    assert run(hq, SUM) == [(34,)]
    assert_equal_to_master(jfk)
