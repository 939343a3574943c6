"""PostgreSQL and Redis servers that come with the installation, for trying it out."""

from snaptide.embedded.errors import EmbeddedServerError
from snaptide.embedded.folders import state_folder
from snaptide.embedded.postgres import PostgresServer
from snaptide.embedded.redis import RedisServer

__all__ = ["EmbeddedServerError", "PostgresServer", "RedisServer", "state_folder"]
