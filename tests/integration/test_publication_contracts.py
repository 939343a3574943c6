"""Contracts of granted sites: each of these reads what it is promised itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

import masters
import snapshots
from sites import Directory, Site
from snaptide.embedded import PostgresServer
from tests.granted import (
    Session,
    as_login,
    execute,
    grant_sales,
    login,
    publish_sales,
    session_of,
    stores,
)
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def store(sites: Directory, server: PostgresServer) -> Iterator[str]:
    """Sales at hq, and the login of jfk, to which those of store 3 are granted."""
    hq = sites["hq"]
    stores(hq)
    publish_sales(hq)
    with login(server, hq) as name:
        grant_sales(hq, name, updatable=False)
        yield name


@pytest.fixture
def granted(sites: Directory, store: str) -> Iterator[Site]:
    """The site jfk as that login, with a contract and one of another site beside it."""
    with as_login(sites, store) as directory:
        snapshots.create(directory["jfk"], "sale", master="hq")
        refresh(directory["jfk"], "sale")
        snapshots.set_contract(sites["jfk"], "sale", visible_within=HOUR)
        run(
            sites["hq"],
            "INSERT INTO snaptide.contract (site_id, site_name, refresh_group,"
            " snapshots, on_breach, visible_within)"
            " VALUES (gen_random_uuid(), 'lga', 'sale', '{sale}', 'tell', '1 s')",
        )
        yield directory["jfk"]


@pytest.fixture
def session(sites: Directory, granted: Site, store: str) -> Iterator[Session]:
    """The login's own session at the master."""
    with session_of(sites["hq"], store) as session:
        yield session


def _kept(jfk: Site) -> list[tuple[object, ...]]:
    return run(jfk, "SELECT visible_within, repair FROM snaptide.promise")


def test_a_change_and_the_end_of_a_contract_reach_its_site(
    sites: Directory, granted: Site
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    assert _kept(jfk) == [(HOUR, False)]
    run(
        hq,
        "UPDATE snaptide.contract SET visible_within = '1 min', on_breach = 'repair'"
        " WHERE site_name = 'jfk'",
        "UPDATE public.sale SET what = 'new' WHERE id = 2",
    )
    refresh(granted, "sale")
    assert _kept(jfk) == [(MINUTE, True)]
    masters.drop_contract(hq, "jfk", "sale")
    run(hq, "UPDATE public.sale SET what = 'newer' WHERE id = 2")
    refresh(granted, "sale")
    assert _kept(jfk) == []


def test_a_login_reads_no_contract_of_another_and_no_term_that_is_no_promise(
    session: Session,
) -> None:
    query = "SELECT visible_within FROM snaptide.contract"
    assert execute(session, query) == [(HOUR,)]
    for refused in (
        "SELECT site_name FROM snaptide.contract",
        "SELECT log_share FROM snaptide.contract",
        "UPDATE snaptide.contract SET visible_within = NULL",
        "DELETE FROM snaptide.contract",
        "LOCK TABLE snaptide.contract IN SHARE MODE",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(session, refused)
        session.rollback()
