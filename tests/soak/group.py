"""The masters of a soak, and what has to be true of them when all is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import deferred
import groups
from deferred.queues import backlog
from groups.define_paths import Shape
from groups.group import get
from groups.relay.arrivals import arrivals
from sites import Site
from tests.linked_table import run

GROUP = "soak"
NAMES = tuple(f"m{n}" for n in range(1, 9))
TABLE = "CREATE TABLE counts (id bigint PRIMARY KEY, n int NOT NULL, said text)"


def found(sites: Mapping[str, Site], shape: Shape) -> None:
    """Make a group of all masters, with these paths between them."""
    home = sites[NAMES[0]]
    for site in sites.values():
        run(site, TABLE)
    groups.create_group(home, GROUP)
    groups.add_table(home, GROUP, "counts")
    for name in NAMES[1:]:
        groups.add_master(home, GROUP, name, via=home.name)
    groups.set_paths(home, GROUP, shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """What waits in all queues together."""

    calls: int
    #: the age of the oldest transaction that waits, in seconds
    lag: float


def depth(sites: Mapping[str, Site]) -> Depth:
    """How much waits at all masters now."""
    calls, lag = 0, 0.0
    for site in sites.values():
        with site.transaction() as connection:
            now = connection.exec_driver_sql("SELECT now()").scalar_one()
            for one in backlog.backlogs(connection):
                calls += one.calls
                if one.oldest is not None:
                    lag = max(lag, (now - one.oldest).total_seconds())
    return Depth(calls=calls, lag=lag)


def assert_quiet(sites: Mapping[str, Site], made: Mapping[str, int]) -> int:
    """Hold all masters against each other and against what users did.

    Each has got each transaction of every other one once, by one way, and none of its
    own. A row counts the changes of its only writer: twice applied it would differ.

    Parameters:
        made: by master, how many transactions users have committed there.

    Returns:
        How many rows each master has.
    """
    for name, site in sites.items():
        assert deferred.list_errors(site) == [], name
        with site.transaction() as connection:
            came = arrivals(connection, get(connection, name, GROUP).id)
        assert {one.source: one.transactions for one in came} == {
            other: count for other, count in made.items() if count and other != name
        }, name
        assert len(came) == len({one.source for one in came}), f"two ways to {name}"
    whole = "SELECT * FROM counts ORDER BY id"
    first, *others = (run(site, whole) for site in sites.values())
    assert all(other == first for other in others)
    return len(first)
