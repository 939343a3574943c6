"""A master and a site on servers of their own, in the middle of their work."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from tests.fix_homes import Home, new_site
from tests.linked_table import run
from tests.stories import column_groups, refresh

#: What the site adds to the row: pushed, and then queued, when a test begins.
BEFORE, QUEUED = 1, 2


@dataclass(kw_only=True)
class World:
    """A master hq and a site jfk, each on a server of its own."""

    homes: dict[str, Home]
    databases: dict[str, str]
    urls: dict[str, str]
    directory: Directory

    @property
    def hq(self) -> Site:
        return self.directory["hq"]

    @property
    def jfk(self) -> Site:
        return self.directory["jfk"]

    def move(self, name: str, url: str) -> None:
        """The settings name another address for a site from now on."""
        self.directory.close()
        self.urls[name] = url
        self.directory = Directory(self.urls)

    def add(self, name: str, amount: int) -> None:
        """Change one row and insert another, as a user of that site."""
        run(
            self.directory[name],
            f"UPDATE public.t SET n = n + {amount} WHERE id = 1",
            f"INSERT INTO public.t VALUES ({1000 + amount}, 0)",
        )


@pytest.fixture
def world(make_home: Callable[[str], Home]) -> Iterator[World]:
    """A snapshot that was pushed and refreshed; one transaction waits in its queue."""
    homes = {name: make_home(name) for name in ("hq", "jfk", "spare")}
    mark = secrets.token_hex(4)
    databases = {name: f"{name}_{mark}" for name in ("hq", "jfk")}
    urls = {name: new_site(homes[name], name, databases[name]) for name in databases}
    made = World(homes=homes, databases=databases, urls=urls, directory=Directory(urls))
    run(
        made.hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, n int NOT NULL)",
        "INSERT INTO public.t VALUES (1, 0)",
    )
    masters.create_snapshot_log(made.hq, "t")
    column_groups(made.hq, "t", {"n": "additive"})
    snapshots.create(made.jfk, "t", master="hq", updatable=True)
    refresh(made.jfk, "t")
    made.add("jfk", BEFORE)
    deferred.push(made.jfk)
    made.add("jfk", QUEUED)
    yield made
    made.directory.close()
