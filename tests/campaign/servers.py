"""The servers of a campaign: two of PostgreSQL and one Redis, that may be killed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from sites import Directory
from snaptide import migrate
from snaptide.embedded import PostgresServer, RedisServer
from tests.fix_db import TEST_SETTINGS
from tests.fix_proxy import Proxy

TEMPLATE = "template_site"


class Servers:
    """Starts all of them; what was killed is started again."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="snaptide-campaign-"))
        # Who was killed must be able to enter it, whatever account that is.
        self.folder.chmod(0o755)
        self.hq = self._postgres("hq")
        self.jfk = self._postgres("jfk")
        self.redis = RedisServer(self.folder / "redis")

    def start(self) -> None:
        """Start what does not run."""
        for server in (self.hq, self.jfk, self.redis):
            server.start()

    def stop(self) -> None:
        """Stop all, and leave nothing behind."""
        for server in (self.hq, self.jfk, self.redis):
            server.stop()
        shutil.rmtree(self.folder)

    def prepare(self) -> None:
        """Make the databases that worlds are cloned from."""
        self.start()
        for server in (self.hq, self.jfk):
            directory = Directory({"template": server.create_database(TEMPLATE)})
            migrate.upgrade(directory["template"])
            directory.close()

    def _postgres(self, name: str) -> PostgresServer:
        return PostgresServer(self.folder / name, settings=TEST_SETTINGS)


class Lines:
    """Proxies before both servers, for whoever's line is to be cut."""

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
