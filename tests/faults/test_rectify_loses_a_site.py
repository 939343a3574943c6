"""A site or its master dies in the middle of rectify, which says which one it was."""

from typing import Any

import pytest

import snapshots
from sites.errors import SiteUnreachable
from snapshots.rectify import found, mend
from snaptide.embedded import PostgresServer
from tests.faults.test_check_killed import (
    Make,
    assert_nothing_open,
    killed_at,
    with_own,
)
from tests.linked_table import run
from tests.stories import settle

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("dies", ["hq", "jfk"])
@pytest.mark.parametrize(
    ("module", "name", "reference"),
    [
        (found, "everywhere", "master"),
        (mend, "_write_one", "master"),
        (mend, "_write_one", "site"),
        (mend, "refresh", "site"),
    ],
)
def test_a_server_dies(
    make_sites: Make,
    own_server: PostgresServer,
    dies: str,
    reference: str,
    module: Any,
    name: str,
) -> None:
    sites = with_own(make_sites, own_server, dies)
    with (
        killed_at(own_server, module, name),
        pytest.raises(SiteUnreachable, match=f"Site {dies} "),
    ):
        snapshots.rectify(sites["jfk"], reference=reference)
    own_server.start()
    assert_nothing_open(sites)
    assert snapshots.rectify(sites["jfk"], reference=reference).unexplained == 0
    settle(sites["jfk"])
    assert snapshots.check(sites["jfk"]).equal
    note = "x" if reference == "site" else "n7"
    for site in sites.values():
        assert run(site, "SELECT note FROM public.t WHERE id = 7") == [(note,)]
    sites.close()
