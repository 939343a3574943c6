"""A retry whose table somebody has locked says so, and can be made again."""

import pytest

import deferred
from sites import Directory
from tests.linked_table import application, as_refresh, link, parked, rows, run


@pytest.mark.parametrize(
    "computed",
    [
        "int",
        # To describe it, the server prints its expression, which takes a lock.
        "int DEFAULT 7",
    ],
)
def test_a_table_that_is_locked(sites: Directory, computed: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "t", f"id int PRIMARY KEY, v int, w {computed}")
    for site in (hq, jfk):
        as_refresh(site, "INSERT INTO t (id, v) VALUES (1, 0)")
    as_refresh(hq, "UPDATE t SET v = 9")
    run(jfk, "UPDATE t SET v = 1")
    assert deferred.push(jfk).errors == 1
    as_refresh(hq, "UPDATE t SET v = 0")
    with application(hq) as other:
        other.execute("LOCK TABLE public.t IN ACCESS EXCLUSIVE MODE")
        [report] = deferred.retry_errors(hq)
        other.rollback()
    assert not report.applied
    assert "lock timeout" in str(report.reason)
    assert len(parked(hq)) == 1
    [report] = deferred.retry_errors(hq)
    assert report.applied
    assert rows(hq, "t")[0][1] == 1
