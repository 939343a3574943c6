"""Runs the demo's servers, and writes the settings for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snaptide.embedded import PostgresServer, RedisServer
from snaptide.embedded.postgres import USER

MASTER = "hq"
AIRPORTS = ("jfk", "lga", "ewr")

_HEAD = """\
# Written by `snaptide demo`: four sites, each a database of one PostgreSQL server.
"""

_SITE = """
[sites.{name}]
url = "postgresql://{user}@127.0.0.1:{port}/{name}"
password_file = "postgresql/password"
"""

_REST = """
[broker]
url = "{redis}"
# The demo kills workers: their tasks are given to others after so many seconds.
visibility_timeout = 10

[worker]
concurrency = 2
# Schedules alone decide, so that the demo can tell when the sites are offline.
listen = false

[spark.conf]
# Short jobs: a JVM that compiles quickly rather than well needs 40 % less.
"spark.driver.defaultJavaOptions" = "-XX:TieredStopAtLevel=1"
"""


class Servers:
    """PostgreSQL and Redis in the demo's folder; they may outlive this process."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "snaptide.toml"
        self.postgres = PostgresServer(folder / "postgresql")
        self.redis = RedisServer(folder / "redis")

    def start(self) -> None:
        """Start both, create a database for each site, write the settings.

        Raises:
            EmbeddedServerError: one of them does not start.
        """
        self.postgres.start()
        for name in (MASTER, *AIRPORTS):
            self.postgres.create_database(name)
        self.redis.start()
        self.config.write_text(self._settings((MASTER, *AIRPORTS)))

    def stop(self) -> None:
        """Stop those that run, also if another program started them."""
        if self.redis.is_running():
            self.redis.stop()
        if self.postgres.is_running():
            self.postgres.stop()

    def _settings(self, sites: Sequence[str]) -> str:
        port = self.postgres.port
        parts = [_SITE.format(name=name, user=USER, port=port) for name in sites]
        return _HEAD + "".join(parts) + _REST.format(redis=self.redis.url())
