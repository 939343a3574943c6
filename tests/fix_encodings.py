"""A site whose database lacks most of the world's characters, or takes any bytes."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from sites import Directory
from snaptide.embedded import PostgresServer
from tests.fix_db import Clone, close_for_connections
from tests.fix_sites import name_site, prepare_site

LATIN, ASCII = "snaptide_latin_site", "snaptide_ascii_site"

#: A function that makes sites, of which the first one has another encoding than UTF8.
WithOther = Callable[..., Directory]


@pytest.fixture(scope="session")
def latin_template(server: PostgresServer) -> str:
    """A database of the encoding LATIN1, to be copied."""
    return _template(server, LATIN, "LATIN1")


@pytest.fixture(scope="session")
def ascii_template(server: PostgresServer) -> str:
    """A database of the encoding SQL_ASCII, which checks nothing, to be copied."""
    return _template(server, ASCII, "SQL_ASCII")


@pytest.fixture
def with_latin(
    latin_template: str, make_sites: WithOther, clone: Clone
) -> Iterator[WithOther]:
    """A function that makes sites, of which the first one is LATIN1."""
    yield from _making(latin_template, make_sites, clone)


@pytest.fixture
def with_ascii(
    ascii_template: str, make_sites: WithOther, clone: Clone
) -> Iterator[WithOther]:
    """A function that makes sites, of which the first one is SQL_ASCII."""
    yield from _making(ascii_template, make_sites, clone)


def _template(server: PostgresServer, name: str, encoding: str) -> str:
    create = sql.SQL(
        "CREATE DATABASE {} TEMPLATE template0 ENCODING {}"
        " LOCALE_PROVIDER libc LOCALE 'C'"
    ).format(sql.Identifier(name), sql.Literal(encoding))
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(create)
    prepare_site(server.url(name))
    close_for_connections(server, name)
    return name


def _making(template: str, make_sites: WithOther, clone: Clone) -> Iterator[WithOther]:
    made: list[Directory] = []

    def make(other: str, *usual: str) -> Directory:
        urls = {one.name: one.url for one in make_sites(*usual).values()}
        directory = Directory({**urls, other: clone(template, other)})
        made.append(directory)
        name_site(directory[other])
        return directory

    yield make
    for directory in made:
        directory.close()
