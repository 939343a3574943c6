"""A site whose database lacks most of the world's characters."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from sites import Directory
from snaptide.embedded import PostgresServer
from tests.fix_db import Clone, close_for_connections
from tests.fix_sites import name_site, prepare_site

LATIN = "snaptide_latin_site"


@pytest.fixture(scope="session")
def latin_template(server: PostgresServer) -> str:
    """A database of the encoding LATIN1, to be copied."""
    create = sql.SQL(
        "CREATE DATABASE {} TEMPLATE template0 ENCODING 'LATIN1'"
        " LOCALE_PROVIDER libc LOCALE 'C'"
    )
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(LATIN)))
    prepare_site(server.url(LATIN))
    close_for_connections(server, LATIN)
    return LATIN


@pytest.fixture
def with_latin(
    latin_template: str, make_sites: Callable[..., Directory], clone: Clone
) -> Iterator[Callable[..., Directory]]:
    """A function that makes sites, of which the first one is LATIN1."""
    made: list[Directory] = []

    def make(latin: str, *others: str) -> Directory:
        usual = make_sites(*others)
        urls = {one.name: one.url for one in usual.values()}
        directory = Directory({**urls, latin: clone(latin_template, latin)})
        made.append(directory)
        name_site(directory[latin])
        return directory

    yield make
    for directory in made:
        directory.close()
