"""The servers of a campaign: some of PostgreSQL and one Redis, that may be killed."""

from __future__ import annotations

import shutil

from sites import Directory
from snaptide import migrate
from snaptide.embedded import PostgresServer, RedisServer
from tests.fix_db import TEST_SETTINGS, new_folder
from tests.fix_proxy import Proxy

TEMPLATE = "template_site"


class Servers:
    """Starts all of them; what was killed is started again.

    Parameters:
        names: of those of PostgreSQL.
    """

    def __init__(self, *names: str) -> None:
        self.folder = new_folder("snaptide-campaign-")
        # Who was killed must be able to enter it, whatever account that is.
        self.folder.chmod(0o755)
        self.postgres = {
            name: PostgresServer(self.folder / name, settings=TEST_SETTINGS)
            for name in names
        }
        self.redis = RedisServer(self.folder / "redis")

    def start(self) -> None:
        """Start what does not run."""
        for server in self.postgres.values():
            server.start()
        self.redis.start()

    def stop(self) -> None:
        """Stop all, and leave nothing behind."""
        for server in self.postgres.values():
            server.stop()
        self.redis.stop()
        shutil.rmtree(self.folder)

    def prepare(self) -> None:
        """Make the databases that worlds are cloned from."""
        self.start()
        for server in self.postgres.values():
            directory = Directory({"template": server.create_database(TEMPLATE)})
            migrate.upgrade(directory["template"])
            directory.close()


class Lines:
    """Proxies before all databases, for whoever's line is to be cut."""

    def __init__(self, urls: dict[str, str]) -> None:
        self._proxies = {name: Proxy(url) for name, url in urls.items()}
        for proxy in self._proxies.values():
            proxy.start()

    @property
    def urls(self) -> dict[str, str]:
        """The databases' URLs, leading through the proxies."""
        return {name: proxy.url for name, proxy in self._proxies.items()}

    def cut(self) -> None:
        """Reset all lines of this moment."""
        for proxy in self._proxies.values():
            proxy.cut()

    def close(self) -> None:
        """Take the proxies away."""
        for proxy in self._proxies.values():
            proxy.stop()
