"""A push waits for the disk before the other end may rely on what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection
from sqlalchemy.event import listens_for, remove

import deferred
from sites import Directory, Site
from tests.linked_table import link, run

Events = list[tuple[str, str]]

_PEER = "INSERT INTO snaptide.peer"


@contextmanager
def watched(site: Site, events: Events) -> Iterator[None]:
    """Note statements, and whether commits wait for the disk."""

    @listens_for(site.engine, "commit")
    def commit(connection: Connection) -> None:
        said = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()
        events.append((site.name, f"commit {said}"))

    @listens_for(site.engine, "before_cursor_execute")
    def execute(
        _connection: Connection, _cursor: object, text: str, *_: object
    ) -> None:
        if not text.startswith("SHOW"):
            events.append((site.name, text))

    try:
        yield
    finally:
        remove(site.engine, "commit", commit)
        remove(site.engine, "before_cursor_execute", execute)


def test_only_the_ledger_and_the_token_leave_their_flush_to_others(
    sites: Directory,
) -> None:
    link(sites)
    for number in (1, 2):
        run(sites["jfk"], f"INSERT INTO orders (id) VALUES ({number})")
        deferred.push(sites["jfk"])
    events: Events = []
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (3)")
    with watched(sites["jfk"], events), watched(sites["hq"], events):
        deferred.push(sites["jfk"])
    # The ledger, and the transaction with its marker.
    assert _commits(events, "hq") == ["commit off", "commit on"]
    # Batch and promise, which the master relies on, and notes of what was answered.
    assert set(_commits(events, "jfk")) == {"commit on"}
    # The promise commits with the batch; tokens commit by themselves.
    at_jfk = [text for at, text in events if at == "jfk"]
    promised, token = [n for n, text in enumerate(at_jfk) if _PEER in text]
    assert at_jfk[promised + 1] == "commit on"
    assert "set_config" not in at_jfk[promised]
    assert "set_config" in at_jfk[token]
    assert ["set_config" in text for at, text in events if _PEER in text] == [
        False,
        True,
        True,
    ]
    # The site notes the token when the master has flushed it.
    visible = events.index(("hq", "commit on"))
    assert visible < events.index(("jfk", at_jfk[token]))


def test_contact_of_a_large_batch_does_not_wait_for_it(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deferred.pushing.run.SOON", 0)
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    deferred.push(sites["jfk"])
    events: Events = []
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (2)")
    with watched(sites["jfk"], events), watched(sites["hq"], events):
        deferred.push(sites["jfk"])
    peers = [n for n, (_, text) in enumerate(events) if _PEER in text]
    assert len(peers) == 3
    assert peers[-1] < events.index(("hq", "commit off"))
    assert "set_config" not in events[peers[1]][1]


def _commits(events: Events, name: str) -> list[str]:
    return [text for at, text in events if at == name and text.startswith("commit")]
