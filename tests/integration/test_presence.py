"""A mark in Redis says that a worker is there, and goes with it."""

from __future__ import annotations

import time

from redis import Redis

from snaptide.presence import LASTS, Presence, is_served
from tests.fix_worker import eventually


def test_a_worker_marks_its_sites_while_it_is_there(broker: str) -> None:
    one = Presence(broker, ["jfk", "ewr"])
    assert not is_served(broker, "jfk")
    one.start()
    eventually(lambda: is_served(broker, "jfk") and is_served(broker, "ewr"))
    with Redis.from_url(broker) as redis:
        assert 0 < redis.pttl("snaptide.worker.jfk") <= LASTS * 1000
        # A broker that forgets is told again.
        redis.flushdb()
    eventually(lambda: is_served(broker, "jfk"))
    assert not is_served(broker, "hq")
    one.stopping.set()
    one.join()
    assert not is_served(broker, "jfk")


def test_a_broker_that_does_not_answer_serves_nobody() -> None:
    began = time.monotonic()
    assert not is_served("redis://127.0.0.1:1/0", "jfk")
    assert time.monotonic() - began < 2
