"""What a site meets whose login was granted to another, and what a grant leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import masters
import snapshots
from sites import Directory, Site
from sites.errors import NotGranted
from snaptide.doctor import peers
from snaptide.embedded import PostgresServer
from tests.granted import as_login, login, stores
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

WHERE = {"sale": "store_id = :store"}


@pytest.fixture
def store(sites: Directory, server: PostgresServer) -> Iterator[str]:
    """Sales at hq, published, and a login."""
    stores(sites["hq"])
    masters.create_publication(sites["hq"], "sales", ["sale"], where=WHERE)
    with login(server, sites["hq"]) as name:
        yield name


def grant(hq: Site, site: str, store: str) -> None:
    masters.grant(hq, "sales", site, login=store, parameters={"store": "3"})


def registered(hq: Site) -> list[tuple[object, ...]]:
    return run(hq, "SELECT site_name, snapshot FROM snaptide.registered_snapshot")


def test_a_site_called_otherwise_is_told_so(sites: Directory, store: str) -> None:
    hq = sites["hq"]
    grant(hq, "store3", store)
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        with pytest.raises(NotGranted, match=f"{store}.* login of site store3") as told:
            snapshots.create(jfk, "sale", master="hq")
        assert f"snaptide grant hq PUBLICATION jfk --login {store}" in str(told.value)
        assert snapshots.list_snapshots(jfk) == []
        assert registered(hq) == []
        # As it says.
        masters.revoke(hq, "sales", "store3")
        grant(hq, "jfk", store)
        snapshots.create(jfk, "sale", master="hq")
        refresh(jfk, "sale")


def test_a_login_that_went_to_another_site_is_not_taken_for_a_restore(
    sites: Directory, store: str
) -> None:
    hq = sites["hq"]
    grant(hq, "jfk", store)
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        snapshots.create(jfk, "sale", master="hq")
        refresh(jfk, "sale")
        masters.revoke(hq, "sales", "jfk")
        grant(hq, "store3", store)
        before = run(jfk, "SELECT id FROM public.sale ORDER BY 1")
        with pytest.raises(NotGranted, match="this site is called jfk"):
            refresh(jfk, "sale")
        assert run(jfk, "SELECT id FROM public.sale ORDER BY 1") == before
        with jfk.session() as connection:
            [found] = peers.check(connection, jfk)
        assert "is the login of site store3" in found.what


def test_logs_keep_nothing_for_a_table_that_left_its_publication(
    sites: Directory, store: str
) -> None:
    hq = sites["hq"]
    grant(hq, "jfk", store)
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        snapshots.create(jfk, "sale", master="hq")
        refresh(jfk, "sale")
        assert registered(hq) == [("jfk", "sale")]
        masters.alter_publication(hq, "sales", ["public.salary"])
        assert registered(hq) == []
        with pytest.raises(NotGranted):
            refresh(jfk, "sale")
        masters.alter_publication(hq, "sales", ["sale", "salary"], where=WHERE)
        # What has changed meanwhile is in no log that knows of the site.
        run(hq, "DELETE FROM public.sale WHERE id = 2")
        [report] = refresh(jfk, "sale").values()
        assert report.method == "complete"
        assert run(jfk, "SELECT count(*) FROM public.sale") == [(4,)]
