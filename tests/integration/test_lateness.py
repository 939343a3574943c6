"""Of the work that is due, the refresh that is latest by its contract begins first."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from celery import Celery

import deferred
from masters.contracts.contract import Promised
from sites import Site
from snapshots.creating import answers
from snaptide import beat, scheduled
from snaptide.application import REFRESH, celery_app, enqueue
from snaptide.settings import Settings
from tests.fix_worker import Services
from tests.linked_table import run

#: By group, how many minutes ago it was refreshed, and within how many minutes changes
#: are to be visible.
GROUPS = {
    "fresh": (1, 60),
    "late": (20, 15),
    "latest": (20, 5),
    "new": (None, 15),
    "free": (900, None),
}


@pytest.fixture
def due(hq: Site) -> Site:
    """A site with refreshes of all groups, and a purge, that are due."""
    for name, (refreshed, within) in GROUPS.items():
        at = "NULL" if refreshed is None else f"now() - interval '{refreshed} min'"
        run(
            hq,
            "INSERT INTO snaptide.refresh_group (name, master, master_id, refreshed_at)"
            f" VALUES ('{name}', 'lax', gen_random_uuid(), {at})",
        )
        if within is not None:
            promised = Promised(visible_within=timedelta(minutes=within))
            with hq.transaction() as connection:
                answers.keep(connection, name, promised)
    deferred.schedule(hq, "purge", every="1h")
    for name in GROUPS:
        deferred.schedule(hq, "refresh", name, every="1h")
    return hq


def test_the_latest_by_its_contract_is_first(
    due: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, float]] = []
    monkeypatch.setattr(
        beat.Look, "_send", lambda _, one, late: sent.append((one.subject, late))
    )
    monkeypatch.setattr(beat, "enqueue", lambda *_args, **_options: None)
    beat.Look(Celery(), due).look()
    names = [name for name, _ in sent]
    assert names == ["new", "latest", "late", "fresh", "*", "free"]
    # Twice as late as promised, or later; late; neither.
    assert [scheduled.priority(late) for _, late in sent] == [0, 0, 3, 6, 6, 6]


def test_workers_begin_with_the_latest_of_all_sites(services: Services) -> None:
    app = celery_app(Settings.load(services.config))
    waiting = (("hq", "kept", 0.5), ("jfk", "late", 1.5), ("hq", "latest", 3.0))
    for site, group, late in waiting:
        enqueue(app, REFRESH, site, group, priority=scheduled.priority(late))
    worker = services.worker("--concurrency=1")
    # There are no such groups; each refresh says so.
    worker.wait_for_line("refresh hq kept: ")
    begun = re.findall(r"refresh \w+ (kept|late|latest): ", worker.printed())
    assert begun == ["latest", "late", "kept"]
