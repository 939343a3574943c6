"""Flights that three airports have divided among them, by a partition column."""

from __future__ import annotations

import masters
import snapshots
from sites import Directory
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

AIRPORTS = ("jfk", "lax", "sfo")
FLIGHTS = 30


def divide(sites: Directory) -> None:
    """Create the table at hq and a snapshot at each airport, and load these."""
    hq = sites["hq"]
    run(
        hq,
        "CREATE TABLE flights (id int PRIMARY KEY, origin varchar(3), seats int)",
        "INSERT INTO flights SELECT n, (ARRAY['JFK', 'LAX', 'SFO'])[n % 3 + 1], 100"
        f" FROM generate_series(1, {FLIGHTS}) n",
    )
    masters.create_snapshot_log(hq, "flights", partition_columns=["origin"])
    for name in AIRPORTS:
        condition = f"origin = '{name.upper()}'"
        snapshots.create(sites[name], "flights", master="hq", where=condition)
        refresh(sites[name], "flights")


def looked_at(sites: Directory) -> dict[str, int | None]:
    """Refresh all sites, see that they are right, and say how many keys each read."""
    airports = [sites[name] for name in sites if name in AIRPORTS]
    found = {
        site.name: refresh(site, "flights")["flights"].window_keys for site in airports
    }
    assert_equal_to_master(*airports)
    return found
