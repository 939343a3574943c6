"""A master dies in the middle of a check of its group, or of rectify."""

from typing import Any

import pytest

import groups
from groups.check import compare, queued, tally
from groups.rectify import mend, send
from sites import Directory
from sites.errors import SiteUnreachable
from snaptide.embedded import PostgresServer
from tests.faults.test_check_killed import (
    Make,
    assert_nothing_open,
    beside,
    killed_at,
)
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.linked_table import run
from tests.three_masters import unseen

pytestmark = pytest.mark.usefixtures("spark")

MASTERS = ("hq", "lax", "bos")


def masters_with_own(make_sites: Make, server: PostgresServer, name: str) -> Directory:
    """Three masters, one of them on the server; lax has two rows otherwise."""
    sites = beside(make_sites(*(one for one in MASTERS if one != name)), server, name)
    found_group(sites, *MASTERS)
    run(
        sites["hq"],
        "INSERT INTO orders (id, qty) SELECT n, n FROM generate_series(1, 9) n",
    )
    push_all(sites)
    unseen(sites["lax"], "UPDATE orders SET qty = 0 WHERE id <= 2")
    return sites


@pytest.mark.parametrize("dies", ["hq", "lax"])
@pytest.mark.parametrize(
    ("module", "name"),
    [(compare, "differing"), (queued, "on_the_way"), (tally, "_with_values")],
)
def test_in_a_check(
    make_sites: Make,
    own_server: PostgresServer,
    dies: str,
    module: Any,
    name: str,
) -> None:
    sites = masters_with_own(make_sites, own_server, dies)
    with (
        killed_at(own_server, module, name),
        pytest.raises(SiteUnreachable, match=f"Site {dies} stopped answering"),
    ):
        groups.check(sites["hq"], GROUP)
    own_server.start()
    assert_nothing_open(sites)
    assert groups.check(sites["hq"], GROUP).unexplained == 2
    sites.close()


@pytest.mark.parametrize("dies", ["hq", "lax"])
@pytest.mark.parametrize(
    ("module", "name"),
    [(send, "send"), (mend, "_push")],
)
def test_in_rectify(
    make_sites: Make,
    own_server: PostgresServer,
    dies: str,
    module: Any,
    name: str,
) -> None:
    sites = masters_with_own(make_sites, own_server, dies)
    with (
        killed_at(own_server, module, name),
        pytest.raises(SiteUnreachable, match=f"Site {dies} "),
    ):
        groups.rectify(sites["hq"], GROUP, reference="hq", targets="lax")
    own_server.start()
    assert_nothing_open(sites)
    report = groups.rectify(sites["hq"], GROUP, reference="hq")
    assert report.unexplained == 0
    push_all(sites)
    assert_masters_equal(sites, *MASTERS)
    sites.close()
