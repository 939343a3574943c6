"""How often a listener asks workers for pushes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from redis import Redis

import deferred
from sites import Directory
from snaptide.application import celery_app, queue_of
from snaptide.listener import Listener
from snaptide.request_limiter import ENOUGH
from snaptide.settings import Settings
from tests.fix_worker import WriteSettings
from tests.linked_table import link, run

#: Seconds; longer than any of these tests takes.
LONG = 3600.0


@pytest.fixture
def redis(broker: str) -> Iterator[Redis]:
    with Redis.from_url(broker) as client:
        yield client


@pytest.fixture
def app(sites: Directory, broker: str, write_settings: WriteSettings) -> Celery:
    return celery_app(Settings.load(write_settings(sites, broker)))


def test_requests_that_nobody_answers_do_not_add_up(
    sites: Directory, app: Celery, redis: Redis
) -> None:
    link(sites)
    listener = Listener(app, sites["jfk"], poll=LONG)

    def requests_after_asking(times: int) -> int:
        for _ in range(times):
            listener._ask()
        return int(str(redis.llen(queue_of("jfk"))))

    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    assert requests_after_asking(3) == 3
    assert requests_after_asking(ENOUGH) == ENOUGH
    assert requests_after_asking(5) == ENOUGH
    # Somebody pushes again.
    deferred.push(sites["jfk"])
    assert requests_after_asking(5) == ENOUGH
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (2)")
    assert requests_after_asking(5) == ENOUGH + 5


def test_after_a_while_they_are_sent_anew(
    sites: Directory, app: Celery, redis: Redis
) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    listener = Listener(app, sites["jfk"], poll=0)
    for _ in range(ENOUGH + 5):
        listener._ask()
    assert redis.llen(queue_of("jfk")) == ENOUGH + 5
