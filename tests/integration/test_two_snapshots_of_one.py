"""Two snapshots of one master table at a site: each has a queue of its own."""

import pytest

import deferred
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.linked_table import parked, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def both(sites: Directory) -> Directory:
    """Both show all rows."""
    run(
        sites["hq"],
        "CREATE TABLE public.orders (id int PRIMARY KEY, v text, w text)",
        "INSERT INTO public.orders SELECT n, 'old', 'old' FROM generate_series(1, 4) n",
    )
    log(sites["hq"], "orders")
    for name in ("one", "two"):
        snapshots.create(
            sites["jfk"], name, table="orders", master="hq", group="all", updatable=True
        )
    refresh(sites["jfk"], "all")
    return sites


@pytest.mark.parametrize("together", [1, 50_000])
def test_a_row_that_both_change_is_compared_each_time(
    both: Directory, together: int
) -> None:
    for statement in (
        "UPDATE public.one SET v = 'one' WHERE id = 1",
        "UPDATE public.two SET v = 'two' WHERE id <= 2",
        "UPDATE public.one SET w = 'one' WHERE id = 3",
        "UPDATE public.two SET v = 'two' WHERE id = 4",
    ):
        run(both["jfk"], statement)
    report = deferred.push(both["jfk"], "hq", group_max_calls=together)
    assert (report.transactions, report.errors) == (4, 1)
    assert [row[1] for row in parked(both["hq"])] == ["conflict"]
    assert run(both["hq"], "SELECT * FROM public.orders ORDER BY id") == [
        (1, "one", "old"),
        (2, "old", "old"),
        (3, "old", "one"),
        (4, "two", "old"),
    ]
