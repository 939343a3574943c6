"""Servers that come with the installation, for machines that run none of their own."""

from snaptide.embedded.binaries import state_folder
from snaptide.embedded.errors import EmbeddedServerError
from snaptide.embedded.postgres import PostgresServer
from snaptide.embedded.redis import RedisServer

__all__ = ["EmbeddedServerError", "PostgresServer", "RedisServer", "state_folder"]
