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
