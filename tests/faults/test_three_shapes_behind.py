"""A site is away for 90 days, in which its master changes columns three times."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_clock import Clock
from tests.fix_sites import log
from tests.linked_table import parked, queued, run
from tests.seeds import seed
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")

AWAY = 90
#: The site's rows have even ids, those of the master's users odd ones.
STOCK = 40
CHANGES = {
    20: "ALTER TABLE orders ADD tax int DEFAULT 7",
    45: "ALTER TABLE orders RENAME note TO remark; ALTER TABLE orders DROP spare",
    70: "ALTER TABLE orders ALTER qty TYPE bigint",
}

Rows = dict[int, tuple[str, int]]


@pytest.fixture
def world(
    make_sites: Callable[..., Directory], server_with_clock: PostgresServer
) -> Iterator[Directory]:
    """A master and its site, on one server whose clock can be set."""
    urls = {name: server_with_clock.create_database(name) for name in ("hq", "jfk")}
    sites = Directory(urls)
    for name in urls:
        migrate.upgrade(sites[name])
    run(
        sites["hq"],
        "CREATE TABLE public.orders"
        " (id int PRIMARY KEY, note text, qty int, spare text DEFAULT 'spare')",
        f"INSERT INTO orders SELECT n, 'old', 0 FROM generate_series(1, {STOCK}) n",
    )
    log(sites["hq"], "orders")
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    snapshots.refresh(sites["jfk"], "orders")
    yield sites
    sites.close()
    for name in urls:
        server_with_clock.drop_database(name)


@pytest.mark.parametrize("follows", [True, False], ids=["ddl", "by hand"])
def test_everything_is_delivered(world: Directory, clock: Clock, follows: bool) -> None:
    """With `snaptide ddl`, and where the site is altered once it is back."""
    hq, jfk = world["hq"], world["jfk"]
    begin = seed("SNAPTIDE_SHAPES_SEED")
    print("seed", begin)  # noqa: T201
    chance = random.Random(begin)
    mine: Rows = dict.fromkeys(range(2, STOCK + 1, 2), ("old", 0))
    made = 0
    for day in range(AWAY):
        clock.set(timedelta(days=day))
        made += _a_day_at_the_site(jfk, chance, mine, day)
        if day in CHANGES:
            if follows:
                masters.execute_ddl(hq, CHANGES[day])
            else:
                run(hq, *CHANGES[day].split(";"))
        run(
            hq,
            f"UPDATE orders SET qty = {day} WHERE id = {chance.randrange(1, STOCK, 2)}",
        )
        for site in (hq, jfk):
            deferred.purge(site)
        masters.purge_snapshot_logs(hq)

    report = deferred.push(jfk)
    assert (report.transactions, report.errors) == (made, 0)
    assert queued(jfk) == 0
    assert parked(hq) == []
    assert _rows(hq, "remark") == mine
    [(taxed,)] = run(hq, "SELECT count(*) FROM orders WHERE tax = 7")
    assert taxed == len(mine) + STOCK // 2
    if not follows:
        snapshots.alter_columns(
            jfk,
            "orders",
            add=["tax"],
            drop=["spare"],
            rename={"note": "remark"},
            widen=["qty"],
        )
    settle(jfk)
    assert snapshots.check(jfk).equal
    assert_equal_to_master(jfk)
    assert _rows(jfk, "remark") == mine


def _a_day_at_the_site(jfk: Site, chance: random.Random, rows: Rows, day: int) -> int:
    """Change rows of the site's own, each by a transaction; return how many."""
    new = STOCK + 2 * day + 2
    rows[new] = (f"new {day}", day)
    run(jfk, f"INSERT INTO orders (id, note, qty) VALUES ({new}, 'new {day}', {day})")
    changed, gone = chance.sample(sorted(rows), 2)
    rows[changed] = (f"on day {day}", rows[changed][1])
    run(jfk, f"UPDATE orders SET note = 'on day {day}' WHERE id = {changed}")
    del rows[gone]
    run(jfk, f"DELETE FROM orders WHERE id = {gone}")
    return 3


def _rows(site: Site, note: str) -> Rows:
    found: list[tuple[Any, ...]] = run(
        site, f"SELECT id, {note}, qty FROM orders WHERE id % 2 = 0"
    )
    return {id_: (text, qty) for id_, text, qty in found}
