"""A site is away for 90 days and draws numbers as it did before: they last."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

import deferred
import snapshots
from sites import Directory, Site
from sites.configured import Configuration, configure
from snaptide import doctor, migrate
from snaptide.embedded import PostgresServer
from snaptide.status import status_of
from tests.fix_clock import Clock
from tests.fix_sites import log
from tests.linked_table import parked, run
from tests.seeds import seed

pytestmark = pytest.mark.usefixtures("spark")

#: Days with contact, days without, and inserts of an average day.
CONNECTED, AWAY, USE = 10, 90, 400


@pytest.fixture
def world(
    make_sites: Callable[..., Directory], server_with_clock: PostgresServer
) -> Iterator[Directory]:
    """A master, and a site whose clock can be set, which may be away for 90 days."""
    hq = make_sites("hq")["hq"].url.set(drivername="postgresql")
    urls = {
        "hq": hq.render_as_string(hide_password=False),
        "jfk": server_with_clock.create_database("jfk"),
    }
    sites = Directory(urls)
    configure(Configuration(directory=sites, days_away=AWAY))
    migrate.upgrade(sites["jfk"])
    run(sites["hq"], "CREATE TABLE public.orders (id serial PRIMARY KEY, day int)")
    log(sites["hq"], "orders")
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    snapshots.refresh(sites["jfk"], "orders")
    yield sites
    sites.close()
    server_with_clock.drop_database("jfk")


@pytest.mark.parametrize("growth", [1, 1.9])
def test_numbers_last_for_90_days(
    world: Directory, clock: Clock, growth: float
) -> None:
    """Also where the site uses almost twice as many, once it is away."""
    hq, jfk = world["hq"], world["jfk"]
    begin = seed("SNAPTIDE_NUMBERS_SEED")
    print("seed", begin)  # noqa: T201
    chance = random.Random(begin)
    used = 0
    for day in range(CONNECTED):
        clock.set(timedelta(days=day))
        used += _a_day(jfk, day, chance.randint(USE // 2, USE * 3 // 2))
        deferred.push(jfk)
    (column,) = status_of(jfk).numbers
    assert column.lasts_days is not None
    assert column.lasts_days > 2 * AWAY
    assert not _complaints(jfk)
    for day in range(CONNECTED, CONNECTED + AWAY):
        clock.set(timedelta(days=day))
        # Saturdays and Sundays sell twice as much.
        share = 1.6 if day % 7 > 4 else 0.76
        used += _a_day(jfk, day, round(USE * share * growth))
    (column,) = status_of(jfk).numbers
    assert column.left is not None
    assert column.left > 0
    deferred.push(jfk)
    assert parked(hq) == []
    assert run(hq, "SELECT count(*), count(DISTINCT id) FROM orders") == [(used, used)]
    (column,) = status_of(jfk).numbers
    assert column.lasts_days is not None
    assert column.lasts_days > 2 * AWAY
    print(f"{used} inserts; {column}")  # noqa: T201


def _a_day(jfk: Site, day: int, inserts: int) -> int:
    rows = f"INSERT INTO orders (day) SELECT {day} FROM generate_series(1, {inserts})"
    run(jfk, rows)
    return inserts


def _complaints(jfk: Site) -> list[str]:
    return [one.what for one in doctor.examine(jfk) if one.subject == "orders.id"]
