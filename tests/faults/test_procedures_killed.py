"""A push is killed before, between and after procedures: each runs exactly once."""

import signal

import pytest
from sqlalchemy import Connection

import deferred
from sites import Directory
from tests.linked_table import as_refresh, link, parked, queued, rows, run
from tests.pushing import end_push, start_push

POINTS = [
    "push.before_call:kill",
    "push.after_call:kill",
    "push.after_call:kill:2",
    "push.after_commit:kill",
]

ADD = """
CREATE PROCEDURE public.add(step int) LANGUAGE sql
AS 'UPDATE public.orders SET qty = qty + step'
"""


@pytest.mark.faults
def test_killed_between_procedures(sites: Directory) -> None:
    """Two calls among three row changes, of one transaction, for each point."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'n1', 0), (2, 'n2', 0)")
        run(site, ADD)
    deferred.allow_procedure(hq, "add")
    for point in POINTS:
        with jfk.begin() as connection:
            for step in (1, 10):
                _double_first(connection)
                deferred.call(connection, "add", [step], here=True)
            _double_first(connection)
        status, said = end_push(start_push(sites, point), sites)
        assert status == -signal.SIGKILL, (point, said)
        deferred.push(jfk)
        assert rows(hq) == rows(jfk), point
        assert (queued(jfk), parked(hq)) == (0, []), point
    assert rows(hq)[1][2] == 11 * len(POINTS)


def _double_first(connection: Connection) -> None:
    connection.exec_driver_sql("UPDATE public.orders SET qty = qty * 2 WHERE id = 1")
