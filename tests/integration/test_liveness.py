"""A pool replaces sessions that ended while nobody used them."""

from collections.abc import Callable

import pytest

from sites import Directory, Site
from tests.fix_proxy import Proxy
from tests.linked_table import run

END = (
    "SELECT pg_terminate_backend(pid, 90000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def session(site: Site) -> int:
    with site.transaction() as connection:
        return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


@pytest.mark.parametrize("long", [0, 3600])
def test_session_that_the_server_ended(
    sites: Directory, monkeypatch: pytest.MonkeyPatch, long: int
) -> None:
    monkeypatch.setattr("sites.sessions.connections.LONG", long)
    before = session(sites["hq"])
    assert session(sites["hq"]) == before
    with Directory({"hq": sites["hq"].url}) as apart:
        run(apart["hq"], END)
    assert session(sites["hq"]) != before


def test_line_that_was_cut(
    sites: Directory, make_proxy: Callable[[str], Proxy]
) -> None:
    proxy = make_proxy(sites["hq"].url.render_as_string(hide_password=False))
    with Directory({"hq": proxy.url}) as far:
        before = session(far["hq"])
        proxy.cut()
        assert session(far["hq"]) != before


def test_nothing_is_asked_of_a_session_that_was_used_a_moment_ago(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(sites["hq"])
    monkeypatch.setattr(
        "sites.sessions.connections._answers", lambda _: pytest.fail("asked")
    )
    session(sites["hq"])
