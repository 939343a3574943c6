"""Messages that no beat of ours has sent: nothing runs, and the worker goes on."""

from __future__ import annotations

import base64
import json
import pickle
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis

from sites import Directory
from snaptide.application import PURGE, PUSH, REFRESH, queue_of
from tests.fix_worker import NOT_LISTENING, Service, Services, WriteSettings, eventually
from tests.linked_table import link, queued, run

#: Larger than anything a task ever carries.
GIGANTIC = 20_000_000


class Trap:
    """Makes a file when somebody unpickles it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def message(task: str, body: bytes, kind: str, **headers: object) -> str:
    """A message as kombu puts it into Redis."""
    number = str(uuid.uuid4())
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "utf-8" if "json" in kind else "binary",
            "content-type": kind,
            "headers": {"lang": "py", "task": task, "id": number, **headers},
            "properties": {
                "correlation_id": number,
                "delivery_info": {"exchange": "", "routing_key": queue_of("jfk")},
                "delivery_mode": 2,
                "delivery_tag": number,
                "body_encoding": "base64",
            },
        }
    )


def call(task: str, *args: object, **kwargs: object) -> str:
    """A message that asks for a task, with these arguments."""
    body = json.dumps([args, kwargs, {}]).encode()
    return message(task, body, "application/json")


def hostile(trap: Path) -> dict[str, str]:
    """What is sent -> a part of what the worker says about it."""
    pickled = pickle.dumps(([Trap(trap)], {}, {}))
    return {
        message(PUSH, pickled, "application/x-python-serialize"): "Refusing to",
        message(PUSH, b"!!python/object/apply:os.abort []", "application/x-yaml"): (
            "Refusing to"
        ),
        message(PUSH, b"\xff{", "application/json"): "Can't decode",
        call("os.system", "true"): "unregistered task",
        call("snaptide.tasks.push_v9", "jfk"): "unregistered task",
        call(PUSH, "../../etc/passwd"): "No site",
        call(
            PUSH, "jfk", "hq'; DROP TABLE snaptide.delivery; --"
        ): "Nothing is queued here",
        call(PUSH, "jfk", "hq", progress="os.system"): "no option progress",
        call(PUSH, "jfk", "hq", stop="os.system"): "no option stop",
        call(
            PUSH, "jfk", "hq", batch_size="1; DROP TABLE orders"
        ): "batch_size must be",
        call(PUSH, {"site": "jfk"}): "unhashable",
        call(PURGE, "jfk", "*", retention="0"): "no option retention",
        call(REFRESH, "jfk", "g'; DROP TABLE orders; --"): "There is no snapshot",
        call(PUSH, "jfk", "x" * GIGANTIC): "Nothing is queued here",
    }


def _says_more_than(worker: Service, text: str, times: int) -> bool:
    return worker.printed().count(text) > times


def test_nothing_of_them_runs(
    sites: Directory, broker: str, write_settings: WriteSettings, tmp_path: Path
) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id, qty) VALUES (1, 1)")
    trap = tmp_path / "sprung"
    services = Services(write_settings(sites, broker, NOT_LISTENING))
    try:
        worker = services.worker("--concurrency=1")
        with Redis.from_url(broker) as redis:
            for sent, expected in hostile(trap).items():
                seen = worker.printed().count(expected)
                redis.lpush(queue_of("jfk"), sent)
                eventually(
                    partial(_says_more_than, worker, expected, seen),
                    what=f"{expected} of {sent[:60]}",
                )
            assert queued(sites["jfk"]) == 1
            redis.lpush(queue_of("jfk"), call(PUSH, "jfk", "hq"))
            eventually(lambda: not queued(sites["jfk"]), what="the real push")
    finally:
        services.stop()
    assert not trap.exists()
    # What was sent is told in short: a log is no place for 20 MB.
    assert len(worker.printed()) < GIGANTIC / 100
