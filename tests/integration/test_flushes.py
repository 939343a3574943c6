"""A push waits for the disk before the other end may rely on what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection
from sqlalchemy.event import listens_for, remove

import deferred
import masters
import snapshots
from sites import Directory, Site
from tests.linked_table import link, run
from tests.sent import noted

Events = list[tuple[str, str]]

_PEER = "INSERT INTO snaptide.peer"
_ADVANCE = "UPDATE snaptide.registered_snapshot SET position"


@contextmanager
def watched(site: Site, events: Events) -> Iterator[None]:
    """Note statements, and whether commits wait for the disk."""

    @listens_for(site.engine, "commit")
    def commit(connection: Connection) -> None:
        said = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()
        events.append((site.name, f"commit {said}"))

    def note(text: str) -> None:
        if not text.startswith("SHOW"):
            events.append((site.name, text))

    try:
        with noted(site, note):
            yield
    finally:
        remove(site.engine, "commit", commit)


@pytest.mark.parametrize(
    ("transactions", "at_hq"),
    [
        # With its row of the ledger and its marker.
        (1, ["commit on"]),
        # The ledger, and both with their marker.
        (2, ["commit off", "commit on"]),
    ],
)
def test_only_the_ledger_and_the_token_leave_their_flush_to_others(
    sites: Directory, transactions: int, at_hq: list[str]
) -> None:
    link(sites)
    for number in (1, 2):
        run(sites["jfk"], f"INSERT INTO orders (id) VALUES ({number})")
        deferred.push(sites["jfk"])
    events: Events = []
    for number in range(3, 3 + transactions):
        run(sites["jfk"], f"INSERT INTO orders (id) VALUES ({number})")
    with watched(sites["jfk"], events), watched(sites["hq"], events):
        deferred.push(sites["jfk"])
    assert _commits(events, "hq") == at_hq
    # Batch and promise, which the master relies on, and notes of what was answered.
    assert set(_commits(events, "jfk")) == {"commit on"}
    # Those of contacts commit by themselves: the promise, and the token after it.
    contacts = [text for at, text in events if at == "jfk" and _PEER in text]
    assert ["set_config" in text for text in contacts] == [False, True]


def test_refresh_flushes_what_it_writes_and_not_how_far_the_master_is_told(
    sites: Directory,
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE seen (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "seen")
    snapshots.create(jfk, "seen", master="hq")
    snapshots.refresh(jfk, "seen")
    run(hq, "INSERT INTO seen VALUES (1)")
    events: Events = []
    with watched(jfk, events), watched(hq, events):
        snapshots.refresh(jfk, "seen")
    assert _commits(events, "jfk")[-1] == "commit on"
    told = next(n for n, (_, text) in enumerate(events) if _ADVANCE in text)
    assert next(e for e in events[told:] if "commit " in e[1]) == ("hq", "commit off")
    assert _commits(events, "hq").count("commit off") == 1


def _commits(events: Events, name: str) -> list[str]:
    return [text for at, text in events if at == name and text.startswith("commit")]
