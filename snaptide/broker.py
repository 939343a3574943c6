"""Kombu's way to Redis, on which a worker comes back as Redis does.

When the line to Redis breaks, kombu lets go of the connection and only then of the
channel on it, and of the messages whose tasks are still at work. What these ask of a
connection that is gone would be an AttributeError, for which nobody is prepared, and
which ends the worker. Here it is what it is: a lost connection.
"""

from __future__ import annotations

from typing import Any

from kombu import transport
from kombu.transport import redis as kombu_redis
from redis.exceptions import ConnectionError as RedisConnectionError


class Channel(kombu_redis.Channel):
    """A channel that says when its connection was given up."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        if self.connection is None or self.connection.client is None:
            raise RedisConnectionError("The connection of this channel was given up.")
        # The published types of kombu leave it out.
        found: dict[str, Any] = super()._connparams(asynchronous)  # type: ignore[misc]
        return found


class Transport(kombu_redis.Transport):
    """Redis, with such channels."""

    Channel = Channel


def use() -> None:
    """Have URLs of Redis lead to this transport, in this process."""
    ours = f"{__name__}:{Transport.__name__}"
    transport.TRANSPORT_ALIASES.update(redis=ours, rediss=ours)
