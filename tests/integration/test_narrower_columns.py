"""A column of the master that became narrower rounds no value of a site silently."""

import pytest

import deferred
import snapshots
import synchronous
from deferred.errors import ValueWouldChange
from sites import Directory, Site
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import parked, run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

NARROWER = "ALTER TABLE public.t ALTER n TYPE numeric(10,1)"


@pytest.fixture
def jfk(sites: Directory) -> Site:
    """A site with an updatable snapshot of a table at hq."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY, a text, n numeric(10,3))")
    run(hq, "INSERT INTO public.t VALUES (1, 'a', 1.125), (2, 'b', 2.5), (3, 'c', 3)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    return jfk


def at(hq: Site) -> list[tuple[object, ...]]:
    return run(hq, "SELECT id, n::float FROM public.t ORDER BY id")


def test_a_value_that_would_be_rounded_is_parked(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    run(hq, NARROWER)
    refresh(jfk, "t")
    run(jfk, "UPDATE public.t SET n = 7.777 WHERE id = 2")
    run(jfk, "UPDATE public.t SET n = 7.5 WHERE id = 3")
    run(jfk, "INSERT INTO public.t VALUES (4, 'd', 4.000)")
    report = deferred.push(jfk, "hq")
    assert (report.transactions, report.errors) == (3, 1)
    assert at(hq) == [(1, 1.1), (2, 2.5), (3, 7.5), (4, 4.0)]
    [error] = deferred.list_errors(hq)
    assert "t.n cannot hold '7.777'" in error.error_message
    assert "it would silently become 7.8" in error.error_message
    assert parked(hq)[0][2] == ValueWouldChange.code
    refresh(jfk, "t")
    assert_equal_to_master(jfk)
    run(hq, "ALTER TABLE public.t ALTER n TYPE numeric(10,3)")
    assert all(one.applied for one in deferred.retry_errors(hq))
    refresh(jfk, "t")
    assert at(hq)[1] == (2, 7.777)
    assert_equal_to_master(jfk)


def test_what_waits_since_before_is_compared_as_it_would_be_now(
    sites: Directory, jfk: Site
) -> None:
    """A digit that the master lost is no conflict of a change of something else."""
    hq = sites["hq"]
    run(jfk, "UPDATE public.t SET a = 'mine' WHERE id = 1")
    run(hq, NARROWER)
    assert deferred.push(jfk, "hq").errors == 0
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


def test_a_parked_value_is_not_rounded_when_it_is_retried(
    sites: Directory, jfk: Site
) -> None:
    hq = sites["hq"]
    run(hq, "ALTER TABLE public.t ADD CONSTRAINT c CHECK (id < 100) NOT VALID")
    run(jfk, "INSERT INTO public.t VALUES (200, 'x', 7.777)")
    assert deferred.push(jfk, "hq").errors == 1
    run(hq, "ALTER TABLE public.t DROP CONSTRAINT c", NARROWER)
    [report] = deferred.retry_errors(hq)
    assert not report.applied
    assert "it would silently become 7.8" in report.reason
    [error] = deferred.list_errors(hq)
    [call] = deferred.show_error(hq, error.id).calls
    edit = deferred.Edit(call=call.call_no, column="n", value="7.8")
    [report] = deferred.retry_errors(hq, [error.id], edits=[edit])
    assert report.applied
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


def test_a_synchronous_change_is_refused(sites: Directory, jfk: Site) -> None:
    snapshots.alter_propagation(jfk, "t", synchronous=True)
    run(sites["hq"], NARROWER)
    for values in ("(7, 'x', 7.777)", "(7, 'x', 7.777), (8, 'x', 7.777)"):
        with (
            pytest.raises(ValueWouldChange, match=r"numeric\(10,1\) at hq"),
            synchronous.begin(jfk) as connection,
        ):
            connection.exec_driver_sql(f"INSERT INTO public.t VALUES {values}")
    assert len(at(sites["hq"])) == 3


@pytest.mark.parametrize("narrow", ["hq", "jfk"])
def test_doctor_names_the_column(sites: Directory, jfk: Site, narrow: str) -> None:
    if narrow == "hq":
        run(sites["hq"], NARROWER)
    else:
        run(sites["hq"], "ALTER TABLE public.t ALTER n TYPE numeric(10,5)")
    found = [one for one in doctor.examine(jfk) if "numeric(10,3)" in one.what]
    [one] = found
    assert one.subject == "t"
    assert ("parked" if narrow == "hq" else "refreshes stop") in one.what
