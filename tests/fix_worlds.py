"""Worlds for tests: sites that are prepared once for the run, and copied for each test.

What costs is done once: tables, logs, queues and groups are made, snapshots loaded.
A copy has its original's identity, at another place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from sqlalchemy import text

from sites import Directory, Site
from snaptide.embedded import PostgresServer
from tests.fix_db import Clone, TemplateDatabase, close_for_connections, random_name
from tests.fix_sites import TEMPLATE, name_site, prepare_site

Prepare = Callable[[Directory], object]


class MakeWorld(Protocol):
    """Copy the sites of these names as a function prepares them."""

    def __call__(self, prepare: Prepare, *names: str) -> Directory: ...


def prepared_once(*names: str, needs: str = "server") -> Callable[[Prepare], Any]:
    """Make a fixture, sites of these names, of a function that prepares them.

    Parameters:
        needs: another fixture that the function cannot do without.
    """

    def decorate(prepare: Prepare) -> Any:
        @pytest.fixture(name=prepare.__name__)
        def copied(make_world: MakeWorld, request: pytest.FixtureRequest) -> Directory:
            request.getfixturevalue(needs)
            return make_world(prepare, *names)

        return copied

    return decorate


@pytest.fixture(scope="session")
def originals() -> dict[tuple[str, str], dict[str, str]]:
    """The databases that worlds are copied from, by where they were prepared."""
    return {}


@pytest.fixture
def make_world(
    server: PostgresServer,
    originals: dict[tuple[str, str], dict[str, str]],
    template_database: TemplateDatabase,
    clone: Clone,
) -> Iterator[MakeWorld]:
    """A function that copies worlds, and prepares those that it sees first."""
    made: list[Directory] = []

    def make(prepare: Prepare, *names: str) -> Directory:
        key = prepare.__module__, prepare.__qualname__
        if key not in originals:
            template_database(TEMPLATE, prepare_site)
            originals[key] = _prepared(server, prepare, names)
        databases = originals[key]
        directory = Directory({n: clone(databases[n], n) for n in names})
        made.append(directory)
        for site in directory.values():
            _move_here(site)
        return directory

    yield make
    for directory in made:
        directory.close()


def _prepared(
    server: PostgresServer, prepare: Prepare, names: tuple[str, ...]
) -> dict[str, str]:
    databases = {name: random_name(f"original_{name}") for name in names}
    directory = Directory(
        {
            name: server.create_database(database, template=TEMPLATE)
            for name, database in databases.items()
        }
    )
    for site in directory.values():
        name_site(site)
    prepare(directory)
    directory.close()
    for database in databases.values():
        close_for_connections(server, database)
    return databases


def _move_here(site: Site) -> None:
    """Have a site know the database that it is in now."""
    with site.begin() as connection:
        connection.execute(
            text(
                "UPDATE snaptide.site_identity SET database_oid ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        )
