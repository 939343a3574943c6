"""Virtuoso's statements (D.7) about conflicts, through real pushes and refreshes."""

from collections.abc import Iterator

import pytest

import masters
import snapshots
from masters.analysis import convergence
from masters.resolution import Conflict, Decision, Resolution, routines
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, push_and_refresh, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

UPDATE = "UPDATE public.item SET {}, version = gen_random_uuid() WHERE id = 1"


@prepared_once("hq", "jfk", "lga")
def item(sites: Directory) -> None:
    """A publication of hq that jfk and lga may change, compared by row version."""
    run(
        sites["hq"],
        "CREATE TABLE public.item (id int PRIMARY KEY, count int, price numeric,"
        " version uuid NOT NULL DEFAULT gen_random_uuid())",
        "INSERT INTO public.item VALUES (1, 10, 10), (2, 10, 10)",
    )
    log(sites["hq"], "item")
    masters.set_row_version(sites["hq"], "item", "version")
    for name in ("jfk", "lga"):
        snapshots.create(sites[name], "item", master="hq", updatable=True)
        refresh(sites[name], "item")


def settled(item: Directory, expected: tuple[object, ...] | None) -> None:
    """All sites have pushed and refreshed; the first row is this one everywhere."""
    sites = [item["jfk"], item["lga"]]
    settle(*sites)
    assert_equal_to_master(*sites)
    wanted = [] if expected is None else [expected]
    for site in item.values():
        found = run(site, "SELECT count, price FROM public.item WHERE id = 1")
        assert found == wanted


def rule(hq: Site, column: str, method: str, **parameters: object) -> None:
    masters.set_column_group(hq, "item", column, [column])
    masters.add_update_resolution(hq, "item", column, method, parameters=parameters)


def test_d7_1_update_without_conflict_is_not_sent_to_its_originator(
    item: Directory,
) -> None:
    run(item["jfk"], UPDATE.format("count = 15"))
    assert push_and_refresh(item["jfk"], "item").errors == 0
    assert refresh(item["lga"], "item")["item"].updated == 1
    settled(item, (15, 10))


def test_d7_2_conflict_without_resolver_gives_everyone_the_publishers_row(
    item: Directory,
) -> None:
    run(item["hq"], UPDATE.format("count = 12"))
    run(item["jfk"], UPDATE.format("count = 15"))
    assert push_and_refresh(item["jfk"], "item").errors == 1
    settled(item, (12, 10))


@pytest.fixture
def rounding() -> Iterator[str]:
    def routine(conflict: Conflict) -> Resolution:
        return Resolution(
            decision=Decision.SITE_WINS_ORIGIN_CHANGED, values={"price": 99}
        )

    routines.register("rounding", routine)
    yield "rounding"
    routines.REGISTRY.forget("rounding")


def test_d7_5_originator_receives_the_price_that_the_resolver_made(
    item: Directory, rounding: str
) -> None:
    rule(item["hq"], "price", "custom", routine=rounding)
    run(item["hq"], UPDATE.format("price = 12"))
    run(item["jfk"], UPDATE.format("price = 15"))
    settled(item, (10, 99))


@pytest.mark.parametrize(
    ("column", "method", "end"),
    [("count", "add", (17, 10)), ("price", "ave", (10, 13.5))],
)
def test_d7_6_add_and_ave_are_the_same_everywhere(
    item: Directory, column: str, method: str, end: tuple[float, float]
) -> None:
    name, parameters = masters.resolution.virtuoso(method, column)
    rule(item["hq"], column, name, **parameters)
    run(item["hq"], UPDATE.format(f"{column} = 12"))
    run(item["jfk"], UPDATE.format(f"{column} = 15"))
    settled(item, end)


def test_d7_7_a_tie_of_min_goes_to_the_subscriber(item: Directory) -> None:
    hq = item["hq"]
    masters.set_column_group(hq, "item", "both", ["count", "price"])
    name, parameters = masters.resolution.virtuoso("min", "count")
    masters.add_update_resolution(hq, "item", "both", name, parameters=parameters)
    run(hq, UPDATE.format("count = 7, price = 1"))
    run(item["jfk"], UPDATE.format("count = 7, price = 2"))
    settled(item, (7, 2))


@pytest.mark.parametrize(
    ("there", "here", "end"),
    [
        (UPDATE.format("count = 12"), "DELETE FROM public.item WHERE id = 1", (12, 10)),
        ("DELETE FROM public.item WHERE id = 1", UPDATE.format("count = 15"), None),
    ],
)
def test_d7_8_and_9_what_virtuoso_ignores_for_ever_the_next_refresh_settles(
    item: Directory, there: str, here: str, end: tuple[float, float] | None
) -> None:
    """There the site stays another for ever; here it reads what it pushed again."""
    masters.add_delete_resolution(item["hq"], "item", "ignore")
    run(item["hq"], there)
    run(item["jfk"], here)
    settled(item, end)
    # Between masters nobody reads again, and restore sends the row to snapshots alone.
    assert convergence.diverges("ignore", masters=2, snapshots=0)
    assert convergence.diverges("restore", masters=2, snapshots=0)


def test_restore_gives_the_row_back(item: Directory) -> None:
    masters.add_delete_resolution(item["hq"], "item", "restore")
    run(item["hq"], UPDATE.format("count = 12"))
    settle(item["lga"])
    run(item["jfk"], "DELETE FROM public.item WHERE id = 1")
    settled(item, (12, 10))
