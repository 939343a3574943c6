"""A queue of notifications that fills: doctor sees it, and users still commit."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import snapshots
from deferred import push
from sites import Directory, Site
from snaptide import doctor
from snaptide.doctor.finding import Severity
from snaptide.embedded import PostgresServer
from tests.fix_sites import log, name_site, prepare_site
from tests.linked_table import run


@pytest.fixture
def stuck(own_server: PostgresServer, pg_version: int) -> Iterator[psycopg.Connection]:
    """A session in one transaction that listens; the queue of its server is small."""
    if pg_version < 17:
        pytest.skip("the queue of notifications has no limit to be set")
    with psycopg.connect(own_server.url(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET max_notify_queue_pages = 64")
    own_server.stop()
    own_server.start()
    with psycopg.connect(own_server.url()) as session:
        session.execute("LISTEN anything")
        session.commit()
        session.execute("SELECT 1")
        yield session


@contextmanager
def initialised(server: PostgresServer, *names: str) -> Iterator[Directory]:
    """Sites on that server."""
    urls = {name: server.create_database(name) for name in names}
    with Directory(urls) as sites:
        for name in names:
            prepare_site(urls[name])
            name_site(sites[name])
        yield sites


def notify(server: PostgresServer, times: int) -> None:
    """Notify of something that takes a page of the queue, so many times."""
    with psycopg.connect(server.url(), autocommit=True) as other:
        for number in range(times):
            other.execute("SELECT pg_notify('x', rpad(%s, 7000))", [str(number)])


def test_notifications_that_a_session_keeps_from_being_forgotten(
    own_server: PostgresServer, stuck: psycopg.Connection
) -> None:
    """A listener that stays in one transaction; it may be anybody's."""
    with initialised(own_server, "jfk") as sites:
        assert said(sites["jfk"]) == []
        notify(own_server, 40)
        [found] = said(sites["jfk"])
        assert "% full" in found
        stuck.rollback()
        assert said(sites["jfk"]) == []


@pytest.mark.usefixtures("spark")
def test_users_commit_while_the_queue_is_full(
    own_server: PostgresServer, stuck: psycopg.Connection
) -> None:
    """They wake no pusher, and all is pushed that waits."""
    with initialised(own_server, "hq", "jfk") as sites:
        hq, jfk = sites["hq"], sites["jfk"]
        run(hq, "CREATE TABLE public.t (id int PRIMARY KEY)")
        log(hq, "t")
        snapshots.create(jfk, "t", master="hq", updatable=True)
        snapshots.refresh(jfk, "t")
        with pytest.raises(psycopg.OperationalError, match="too many notifications"):
            notify(own_server, 100)
        run(jfk, "INSERT INTO public.t VALUES (1)")
        push(jfk, "hq")
        assert run(hq, "SELECT id FROM public.t") == [(1,)]


def said(site: Site) -> list[str]:
    """What doctor says of the queue."""
    found = [one for one in doctor.examine(site) if one.subject == "NOTIFY"]
    assert {one.severity for one in found} <= {Severity.WARNING}
    return [one.what for one in found]
