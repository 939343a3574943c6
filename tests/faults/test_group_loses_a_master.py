"""A master dies in the middle of a check of its group, or of rectify."""

from typing import Any

import pytest

import groups
from groups.check import compare, queued, tally
from groups.rectify import mend, send
from sites import Directory
from sites.errors import SiteUnreachable
from snaptide.embedded import PostgresServer
from tests.faults.test_check_killed import IDLE, Make, beside
from tests.faults.test_rectify_loses_a_site import killing
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
    monkeypatch: pytest.MonkeyPatch,
    dies: str,
    module: Any,
    name: str,
) -> None:
    sites = masters_with_own(make_sites, own_server, dies)
    with monkeypatch.context() as patched:
        patched.setattr(module, name, killing(own_server, getattr(module, name)))
        with pytest.raises(SiteUnreachable, match=f"Site {dies} stopped answering"):
            groups.check(sites["hq"], GROUP)
    own_server.start()
    for site in sites.values():
        assert run(site, IDLE) == []
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
    monkeypatch: pytest.MonkeyPatch,
    dies: str,
    module: Any,
    name: str,
) -> None:
    sites = masters_with_own(make_sites, own_server, dies)
    with monkeypatch.context() as patched:
        patched.setattr(module, name, killing(own_server, getattr(module, name)))
        with pytest.raises(SiteUnreachable, match=f"Site {dies} "):
            groups.rectify(sites["hq"], GROUP, reference="hq", targets="lax")
    own_server.start()
    for site in sites.values():
        assert run(site, IDLE) == []
    report = groups.rectify(sites["hq"], GROUP, reference="hq")
    assert report.unexplained == 0
    push_all(sites)
    assert_masters_equal(sites, *MASTERS)
    sites.close()
