"""Doctor sees the queue of notifications fill, before commits of users fail."""

import psycopg
import pytest

from sites import Directory, Site
from snaptide import doctor
from snaptide.doctor.finding import Severity
from snaptide.embedded import PostgresServer
from tests.fix_sites import name_site, prepare_site


def test_notifications_that_a_session_keeps_from_being_forgotten(
    own_server: PostgresServer, pg_version: int
) -> None:
    """A listener that stays in one transaction; it may be anybody's."""
    if pg_version < 17:
        pytest.skip("the queue of notifications has no limit to be set")
    with psycopg.connect(own_server.url(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET max_notify_queue_pages = 64")
    own_server.stop()
    own_server.start()
    url = own_server.create_database("jfk")
    prepare_site(url)
    with Directory({"jfk": url}) as sites, psycopg.connect(url) as stuck:
        name_site(sites["jfk"])
        stuck.execute("LISTEN anything")
        stuck.commit()
        assert said(sites["jfk"]) == []
        stuck.execute("SELECT 1")
        with psycopg.connect(own_server.url(), autocommit=True) as other:
            for number in range(40):
                other.execute("SELECT pg_notify('x', rpad(%s, 7000))", [str(number)])
        [found] = said(sites["jfk"])
        assert "% full" in found
        stuck.rollback()
        assert said(sites["jfk"]) == []


def said(site: Site) -> list[str]:
    """What doctor says of the queue."""
    found = [one for one in doctor.examine(site) if one.subject == "NOTIFY"]
    assert {one.severity for one in found} <= {Severity.WARNING}
    return [one.what for one in found]
