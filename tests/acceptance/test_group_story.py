"""From a snapshot at one site to a snapshot at another, by way of two masters.

The four steps of Oracle's manual, "Propagating Changes Between Snapshot Sites".
"""

from collections.abc import Callable

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from tests.grouped import found_group
from tests.linked_table import rows, run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

EMP = "INSERT INTO orders VALUES (1, 'king', 1, 5000, '1981-11-17')"


def snapshot_of(site: Site, master: Site) -> None:
    """Give a site an updatable snapshot of the group's table at its master."""
    masters.create_snapshot_log(master, "orders")
    snapshots.create(site, "orders", master=master.name, updatable=True)
    refresh(site, "orders")


def test_change_goes_from_snapshot_to_snapshot_in_four_steps(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("master_a", "master_b", "site_a", "site_b")
    found_group(sites, "master_a", "master_b")
    run(sites["master_a"], EMP)
    deferred.push(sites["master_a"])
    snapshot_of(sites["site_a"], sites["master_a"])
    snapshot_of(sites["site_b"], sites["master_b"])

    # 1. The change is first applied to the snapshot at site A.
    run(sites["site_a"], "UPDATE orders SET price = 6000 WHERE id = 1")
    assert price(sites["site_a"]) == 6000
    assert price(sites["master_a"]) == 5000

    # 2. It is applied to the master table of site A.
    assert deferred.push(sites["site_a"]).transactions == 1
    assert price(sites["master_a"]) == 6000
    assert price(sites["master_b"]) == 5000

    # 3. When master A communicates with master B, the table there gets it.
    assert deferred.push(sites["master_a"]).transactions == 1
    assert price(sites["master_b"]) == 6000
    assert price(sites["site_b"]) == 5000

    # 4. The snapshot at site B gets it when it is refreshed.
    refresh(sites["site_b"], "orders")
    assert price(sites["site_b"]) == 6000

    # And nothing comes back.
    assert deferred.push(sites["master_b"]).transactions == 0
    refresh(sites["site_a"], "orders")
    assert_equal_to_master(sites["site_a"], sites["site_b"])


def price(site: Site) -> object:
    """What the one row costs at a site."""
    [row] = rows(site)
    return row[3]
