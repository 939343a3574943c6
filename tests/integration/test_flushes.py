"""A push waits for the disk before the other end may rely on what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection
from sqlalchemy.event import listens_for, remove

import deferred
from deferred.batches import cut
from sites import Directory, Site
from tests.linked_table import link, run

Events = list[tuple[str, str]]


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


def test_what_is_not_flushed_is_before_the_other_end_hears(sites: Directory) -> None:
    link(sites)
    for number in (1, 2):
        run(sites["jfk"], f"INSERT INTO orders (id) VALUES ({number})")
        deferred.push(sites["jfk"])
    events: Events = []
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (3)")
    with watched(sites["jfk"], events), watched(sites["hq"], events):
        deferred.push(sites["jfk"])
    cut = events.index(("jfk", "commit off"))
    name, promise = events[cut + 1]
    # It commits by itself, and is flushed as any statement of ours is.
    assert (name, "INSERT INTO snaptide.peer" in promise) == ("jfk", True)
    assert "synchronous_commit" not in promise
    assert events[cut + 2][0] == "hq"
    # The ledger, and the transaction with its marker.
    assert _commits(events, "hq") == ["commit off", "commit on"]
    assert set(_commits(events, "jfk")[1:]) == {"commit on"}


def test_later_batches_are_flushed_when_they_are_cut(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No contact comes between these and the destination."""
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (0)")
    deferred.push(sites["jfk"])  # the first one agrees with the destination, too
    monkeypatch.setattr(cut, "BATCH_CALLS", 1)
    for number in (1, 2, 3):
        run(sites["jfk"], f"INSERT INTO orders (id) VALUES ({number})")
    events: Events = []
    with watched(sites["jfk"], events):
        assert deferred.push(sites["jfk"]).transactions == 3
    assert _commits(events, "jfk").count("commit off") == 1


def _commits(events: Events, name: str) -> list[str]:
    return [text for at, text in events if at == name and text.startswith("commit")]
