"""A price rise that a site and its master each run, and what refreshes show then."""

import pytest

import deferred
import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

PRICES = "SELECT price FROM public.items ORDER BY id"


def rise(site: Site, by: int) -> None:
    """A procedure of the same name everywhere, and not the same everywhere."""
    run(
        site,
        "CREATE OR REPLACE PROCEDURE public.rise() LANGUAGE sql AS"
        f" 'UPDATE public.items SET price = price + {by} WHERE price > 0'",
    )


def prices(site: Site) -> list[object]:
    return [price for (price,) in run(site, PRICES)]


def test_a_site_shows_its_own_result_until_the_master_has_answered(
    sites: Directory,
) -> None:
    """Then the master's: its procedure did more, and was refused the second time."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.items (id int PRIMARY KEY, price int CHECK (price < 99))",
        "INSERT INTO public.items VALUES (1, 10), (2, 20), (3, 0)",
    )
    log(hq, "items")
    snapshots.create(jfk, "items", master="hq", updatable=True)
    refresh(jfk, "items")
    rise(hq, 7)
    rise(jfk, 1)
    deferred.allow_procedure(hq, "rise")
    with jfk.begin() as connection:
        deferred.call(connection, "rise", here=True)
    assert prices(jfk) == [11, 21, 0]
    run(hq, "UPDATE public.items SET price = 5 WHERE id = 3")
    refresh(jfk, "items")
    assert prices(jfk) == [11, 21, 5]
    deferred.push(jfk)
    refresh(jfk, "items")
    assert prices(jfk) == prices(hq) == [17, 27, 12]
    assert_equal_to_master(jfk)
    rise(hq, 1000)
    with jfk.begin() as connection:
        deferred.call(connection, "rise", here=True)
    assert deferred.push(jfk).errors == 1
    assert prices(jfk) == [18, 28, 13]
    refresh(jfk, "items")
    assert prices(jfk) == prices(hq) == [17, 27, 12]
    assert_equal_to_master(jfk)
