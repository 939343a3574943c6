"""The servers that the oracle plays on, and what it may do to them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sites import Directory
from snaptide.embedded import PostgresServer
from tests.fix_proxy import Proxy
from tests.oracle.shapes import Shape
from tests.oracle.story import Story
from tests.oracle.world import MASTER, SITES, World


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A server for the master and one for the sites, each with its proxy."""

    servers: Mapping[str, PostgresServer]
    proxies: Mapping[str, Proxy]
    #: makes initialised databases: server, name of the site -> name of the database
    make_site: Callable[[PostgresServer, str], str]
    story: Story

    def world(self, shapes: tuple[Shape, ...]) -> World:
        """New databases with the given tables, reached through the proxies."""
        urls, far = {}, {}
        for name in (MASTER, *SITES):
            urls[name] = self.make_site(self.servers[name], name)
            database = urls[name].rpartition("/")[2]
            far[name] = self.proxies[name].url.rpartition("/")[0] + f"/{database}"
        made = World(sites=Directory(far), urls=urls, shapes=shapes)
        made.build()
        return made

    def clear(self, world: World) -> None:
        """Drop the databases of a world."""
        world.sites.close()
        for name, url in world.urls.items():
            self.servers[name].drop_database(url.rpartition("/")[2])

    def cut(self, name: str) -> None:
        """Reset the lines to the server of a site."""
        self.story.tell(f"the line to {name} is cut")
        self.proxies[name].cut()

    def kill(self, name: str) -> None:
        """Kill the server of a site."""
        self.story.tell(f"the server of {name} is killed")
        self.servers[name].kill()

    def start(self, name: str) -> None:
        """Start the server of a site again; nobody may hold on to its old lines."""
        self.servers[name].start()


def random_name(label: str) -> str:
    """A name of a database; not from `random`, which tests seed anew."""
    return f"{label}_{secrets.token_hex(4)}"
