"""Sites for tests: databases with the schema snaptide, cloned from one template."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import text

from masters.log import arming
from masters.log.snapshot_log import create_snapshot_log
from sites import Directory, Site
from sites.sessions import identity
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import Clone, TemplateDatabase

TEMPLATE = "snaptide_site"


@pytest.fixture
def make_sites(
    template_database: TemplateDatabase, clone: Clone
) -> Iterator[Callable[..., Directory]]:
    """A function that makes initialised sites of the names it is given."""
    made: list[Directory] = []

    def make(*names: str) -> Directory:
        template = template_database(TEMPLATE, prepare_site)
        directory = Directory({name: clone(template, name) for name in names})
        made.append(directory)
        for name in names:
            name_site(directory[name])
        return directory

    yield make
    for directory in made:
        for site in directory.values():
            site.close()


@pytest.fixture
def sites(make_sites: Callable[..., Directory]) -> Directory:
    """Two sites: `hq`, where masters are, and `jfk`, for snapshots."""
    return make_sites("hq", "jfk")


@pytest.fixture
def sites_with_commit_times(own_server: PostgresServer) -> Iterator[Directory]:
    """The same two, without names; their server keeps the times of commits."""
    with psycopg.connect(own_server.url(), autocommit=True) as session:
        session.execute("ALTER SYSTEM SET track_commit_timestamp = on")
    own_server.stop()
    own_server.start()
    urls = {name: own_server.create_database(name) for name in ("hq", "jfk")}
    with Directory(urls) as directory:
        for site in directory.values():
            migrate.upgrade(site)
        yield directory


@pytest.fixture
def hq(sites: Directory) -> Site:
    """The master of a test's sites."""
    return sites["hq"]


@pytest.fixture
def jfk(sites: Directory) -> Site:
    """The snapshot site among them."""
    return sites["jfk"]


def prepare_site(url: str) -> None:
    """Let the database be one that sites are cloned from."""
    site = Directory({"template": url})["template"]
    migrate.upgrade(site)
    site.close()


def name_site(site: Site) -> None:
    """A clone is another database: give it an identity of its own."""
    with site.transaction() as connection:
        connection.execute(text("DELETE FROM snaptide.site_identity"))
        identity.record(connection, site.name)


def log(site: Site, *tables: str, with_rowid: bool = False) -> None:
    """Create a snapshot log for each table."""
    for table in tables:
        create_snapshot_log(site, table, with_rowid=with_rowid)


def unarmed(site: Site) -> None:
    """New partitions get no triggers, as where our user may create no event trigger."""
    with site.transaction() as connection:
        arming.remove(connection)
