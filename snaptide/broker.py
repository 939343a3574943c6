"""Kombu's transport to Redis, changed so that a worker survives a lost connection.

When the connection to Redis breaks, kombu closes the connection first, and only then
the channel on it and the messages whose tasks still run. These use the connection that
is gone and raise an AttributeError, which no caller handles and which ends the worker.
Here they raise a lost connection instead, and the worker reconnects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kombu import Connection, transport
from kombu.exceptions import ChannelError, OperationalError
from kombu.transport import redis as kombu_redis
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

#: What a broker that does not answer, or refuses, ends with.
ERRORS = (RedisError, OperationalError, OSError)

#: Seconds that a short question waits for the broker.
PATIENCE = 1.0


class Channel(kombu_redis.Channel):
    """A channel that raises a lost connection when its connection was closed."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        if self.connection is None or self.connection.client is None:
            raise RedisConnectionError("The connection of this channel was given up.")
        # The published types of kombu do not declare this method.
        found: dict[str, Any] = super()._connparams(asynchronous)  # type: ignore[misc]
        return found


class Transport(kombu_redis.Transport):
    """Kombu's transport to Redis, with our channels."""

    Channel = Channel


def use() -> None:
    """Make kombu use this transport for Redis URLs in this process."""
    ours = f"{__name__}:{Transport.__name__}"
    transport.TRANSPORT_ALIASES.update(redis=ours, rediss=ours)


def waiting(url: str, queue: str) -> int:
    """How many messages of a queue nobody has taken yet.

    Raises:
        one of `ERRORS`: the broker does not answer.
    """
    with _channel(url) as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except ChannelError:
            return 0  # Redis has no empty lists


@contextmanager
def client(url: str) -> Iterator[Redis]:
    """Redis itself, for short questions; as kombu finds it by the same URL.

    Raises:
        one of `ERRORS`: it does not answer.
    """
    with _channel(url) as channel:
        yield channel.client


@contextmanager
def _channel(url: str) -> Iterator[Any]:
    use()
    limits = {"socket_connect_timeout": PATIENCE, "socket_timeout": PATIENCE}
    with Connection(url, transport_options={**limits, "max_retries": 0}) as connection:
        yield connection.default_channel
