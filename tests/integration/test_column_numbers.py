"""A change goes to the column that it was made for, whatever is called like it now."""

import pytest

import deferred
import snapshots
import synchronous
from deferred.errors import TargetColumnsMoved
from sites import Directory, Site
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

SWAP = (
    "ALTER TABLE public.t RENAME a TO c",
    "ALTER TABLE public.t RENAME b TO a",
    "ALTER TABLE public.t RENAME c TO b",
)
NEW_KEY = (
    "ALTER TABLE public.t DROP id",
    "ALTER TABLE public.t ADD id serial PRIMARY KEY",
)
COLUMNS = "id int PRIMARY KEY, a text, b text"
#: In this order on disk: the numbers of a new key are the other way round.
VALUES = "(2, 'A', 'B'), (1, 'A', 'B')"


@pytest.fixture
def jfk(sites: Directory) -> Site:
    """A site with an updatable snapshot of a table at hq."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        f"CREATE TABLE public.t ({COLUMNS})",
        f"INSERT INTO public.t VALUES {VALUES}",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    return jfk


def at(hq: Site) -> list[tuple[object, ...]]:
    return run(hq, "SELECT id, a, b FROM public.t ORDER BY id, a")


def change(jfk: Site, statement: str) -> None:
    with synchronous.begin(jfk) as connection:
        connection.exec_driver_sql(statement)


def test_synchronous_changes_go_to_no_other_column(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    snapshots.alter_propagation(jfk, "t", synchronous=True)
    run(hq, *SWAP)
    with pytest.raises(TargetColumnsMoved, match="that one is called b"):
        change(jfk, "INSERT INTO public.t VALUES (7, 'A', 'B')")
    assert (7, "B", "A") not in at(hq)
    refresh(jfk, "t")
    change(jfk, "INSERT INTO public.t VALUES (7, 'A', 'B')")
    change(jfk, "INSERT INTO public.t VALUES (8, 'A', 'B'), (9, 'A', 'B')")
    assert at(hq)[-3:] == [(7, "A", "B"), (8, "A", "B"), (9, "A", "B")]


def test_a_statement_that_is_kept_goes_to_no_other_column(
    sites: Directory, jfk: Site
) -> None:
    """The coordinator remembers statements for some seconds."""
    hq = sites["hq"]
    snapshots.alter_propagation(jfk, "t", synchronous=True)
    change(jfk, "INSERT INTO public.t VALUES (7, 'A', 'B')")
    change(jfk, "UPDATE public.t SET a = 'mine' WHERE id = 7")
    run(hq, *SWAP)
    for statement in (
        "INSERT INTO public.t VALUES (8, 'A', 'B')",
        "UPDATE public.t SET a = 'later' WHERE id = 7",
        "INSERT INTO public.t VALUES (8, 'A', 'B'), (9, 'A', 'B')",
    ):
        with pytest.raises(TargetColumnsMoved, match="that one is called b"):
            change(jfk, statement)
    assert at(hq)[-1] == (7, "B", "mine")
    refresh(jfk, "t")
    change(jfk, "UPDATE public.t SET a = 'later' WHERE id = 7")
    assert at(hq)[-1] == (7, "later", "mine")


@pytest.mark.parametrize("point", ["push.after_ship", "push.before_apply"])
@pytest.mark.parametrize("count", [1, 3], ids=["one", "together"])
def test_columns_that_move_during_a_push(
    sites: Directory, jfk: Site, moments: Moments, point: str, count: int
) -> None:
    """Changes are shipped, and then the columns exchange their names."""
    hq = sites["hq"]
    if count > 1 and point == "push.after_ship":
        point = "push.after_group_ship"
    for number in range(count):
        run(jfk, f"INSERT INTO public.t VALUES ({10 + number}, 'A', 'B')")
    moments.at(point, lambda: run(hq, *SWAP))
    assert deferred.push(jfk, "hq").errors == 0
    assert point in moments.reached
    assert at(hq)[2:] == [(10 + n, "B", "A") for n in range(count)]


def test_other_ddl_during_a_push_only_delays_it(
    sites: Directory, jfk: Site, moments: Moments
) -> None:
    hq = sites["hq"]
    run(jfk, "INSERT INTO public.t VALUES (7, 'A', 'B')")
    statement = "ALTER TABLE public.t ALTER a TYPE varchar(20), ADD more int"
    moments.at("push.before_apply", lambda: run(hq, statement))
    assert deferred.push(jfk, "hq").errors == 0
    assert at(hq)[-1] == (7, "A", "B")


def test_a_refresh_waits_for_changes_made_under_other_names(
    sites: Directory, jfk: Site
) -> None:
    """Changes of before it, and of after it, would name columns differently."""
    hq = sites["hq"]
    run(jfk, "UPDATE public.t SET a = 'mine' WHERE id = 1")
    run(hq, *SWAP)
    with pytest.raises(TargetColumnsMoved, match="that one is called b"):
        snapshots.refresh(jfk, "t", push_deferred_rpc=False)
    run(jfk, "INSERT INTO public.t VALUES (3, 'A', 'B')")
    run(hq, *SWAP)
    assert deferred.push(jfk, "hq").errors == 0
    assert at(hq) == [(1, "mine", "B"), (2, "A", "B"), (3, "A", "B")]


@pytest.mark.parametrize(
    "what", ["UPDATE public.t SET a = 'mine'", "DELETE FROM public.t"]
)
def test_a_new_key_is_another_key(sites: Directory, jfk: Site, what: str) -> None:
    hq = sites["hq"]
    run(jfk, f"{what} WHERE id = 2")
    run(hq, *NEW_KEY)
    before = at(hq)
    with pytest.raises(TargetColumnsMoved, match="is gone"):
        deferred.push(jfk, "hq")
    with pytest.raises(TargetColumnsMoved, match="is gone"):
        snapshots.refresh(jfk, "t", push_deferred_rpc=False)
    assert at(hq) == before


def test_a_parked_change_goes_to_no_other_column(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    run(hq, "ALTER TABLE public.t ADD CONSTRAINT c CHECK (id < 100) NOT VALID")
    run(jfk, "INSERT INTO public.t VALUES (200, 'A', 'B')")
    assert deferred.push(jfk, "hq").errors == 1
    run(hq, "ALTER TABLE public.t DROP CONSTRAINT c", *SWAP)
    (report,) = deferred.retry_errors(hq)
    assert report.applied
    assert at(hq)[-1] == (200, "B", "A")


@pytest.mark.parametrize("how", ["all", "by number", "without gone"])
def test_a_parked_change_is_not_of_a_new_key(
    sites: Directory, jfk: Site, how: str
) -> None:
    hq = sites["hq"]
    run(hq, "ALTER TABLE public.t ADD CONSTRAINT c CHECK (a <> 'mine')")
    run(jfk, "UPDATE public.t SET a = 'mine' WHERE id = 2")
    assert deferred.push(jfk, "hq").errors == 1
    run(hq, "ALTER TABLE public.t DROP CONSTRAINT c", *NEW_KEY)
    before = at(hq)
    chosen = [one.id for one in deferred.list_errors(hq)]
    (report,) = deferred.retry_errors(
        hq,
        chosen if how == "by number" else None,
        without_gone=how == "without gone",
    )
    assert not report.applied
    assert "is gone" in report.reason
    assert at(hq) == before
