"""Redis for tests: one server for the run."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from snaptide.embedded import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The Redis server of this run; leave it running."""
    folder = Path(tempfile.mkdtemp(prefix="snaptide-redis-"))
    server = RedisServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, which it may kill, and that keeps nothing."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()
