"""Edits, pushes, backups, restores and repairs at random: each change arrives once.

SNAPTIDE_RESTORE_SEEDS says how many walks there are, SNAPTIDE_RESTORE_STEPS how long
each is; `SNAPTIDE_RESTORE_SEED` repeats one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.exc import OperationalError
from tenacity import retry, retry_if_exception_type, stop_after_delay

import deferred
from deferred.batches import whole_window
from sites import Directory
from sites.errors import SiteChanged, SiteReplaced, SiteRestored
from snaptide.embedded import PostgresServer
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.linked_table import as_refresh, link, parked, run
from tests.stories import column_groups

FIRST = int(os.environ.get("SNAPTIDE_RESTORE_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SNAPTIDE_RESTORE_SEEDS", "2")))
STEPS = int(os.environ.get("SNAPTIDE_RESTORE_STEPS", "30"))


class Walk:
    """A site and its master, and what the databases should hold."""

    def __init__(self, sites: Directory, clone: Clone, seed: int) -> None:
        self.urls = {
            name: site.url.render_as_string(hide_password=False)
            for name, site in sites.items()
        }
        self.sites, self._clone = sites, clone
        self.random = random.Random(seed)
        self.amount = 1
        #: amounts that were added in each database, as it is now and in its backup
        self.held: dict[str, set[int]] = {"hq": set(), "jfk": set()}
        self.backups: dict[str, tuple[str, set[int]]] = {}
        self.history: list[str] = []

    def edit(self, name: str) -> None:
        run(
            self.sites[name],
            f"UPDATE t SET n = n + {self.amount} WHERE id = 1",
            f"INSERT INTO t VALUES ({100 + self.amount.bit_length()}, 0)",
        )
        self.held[name].add(self.amount)
        self.amount *= 2

    def push(self) -> None:
        """Push a little or all."""
        some = self.random.choice([0, 0, 1, 2])
        with self._refused():
            deferred.push(self.sites["jfk"], transaction_count=some)
            self._note_pushed()

    def backup(self, name: str) -> None:
        self.backups[name] = (self._copy(self.urls[name], name), set(self.held[name]))

    def restore(self, name: str) -> None:
        if name in self.backups:
            url, held = self.backups[name]
            self.urls[name] = self._copy(url, name)
            self.held[name] = set(held)
            self.sites.close()
            self.sites = Directory(self.urls)

    def repair(self, name: str) -> None:
        with self._refused():
            repair(self.sites[name])

    def settle(self) -> None:
        """Repair what has to be, and push until nothing is left."""
        for name in ("hq", "jfk", "hq"):
            repair(self.sites[name])
        deferred.push(self.sites["jfk"])
        self.held["hq"] |= self.held["jfk"]

    def check(self) -> None:
        hq = self.sites["hq"]
        assert parked(hq) == []
        assert run(hq, "SELECT n FROM t WHERE id = 1") == [(sum(self.held["hq"]),)]
        ids = [(100 + amount.bit_length(),) for amount in sorted(self.held["hq"])]
        assert run(hq, "SELECT id FROM t WHERE id > 1 ORDER BY id") == ids

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Nothing is done while a side has to be repaired first."""
        try:
            yield
        except (SiteChanged, SiteReplaced, SiteRestored) as error:
            self.history.append(error.code)

    def _note_pushed(self) -> None:
        """What of the site's changes the master has now: it may be a part."""
        rows = run(self.sites["hq"], "SELECT id FROM t WHERE id > 1")
        there = {2 ** (number - 101) for (number,) in rows}
        assert there <= self.held["hq"] | self.held["jfk"]
        self.held["hq"] |= there & self.held["jfk"]

    @retry(retry=retry_if_exception_type(OperationalError), stop=stop_after_delay(90))
    def _copy(self, url: str, name: str) -> str:
        self.sites.close()
        return self._clone(url.rpartition("/")[2], name)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_change_arrives_once(
    make_sites: Callable[..., Directory],
    clone: Clone,
    server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    # In each second walk, batches say of most transactions which they are.
    monkeypatch.setattr(whole_window, "MANY", 1 if seed % 2 else whole_window.MANY)
    sites = make_sites("hq", "jfk")
    link(sites, "t", "id int PRIMARY KEY, n numeric")
    column_groups(sites["hq"], "t", {"n": "additive"})
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1, 0)")
    walk = Walk(sites, clone, seed)
    steps = [
        *[("edit", "jfk")] * 6,
        ("edit", "hq"),
        *[("push", "")] * 5,
        *[(verb, name) for verb in ("backup", "restore") for name in ("hq", "jfk")],
        *[("repair", name) for name in ("hq", "jfk")] * 2,
    ]
    try:
        for _ in range(STEPS):
            verb, name = walk.random.choice(steps)
            walk.history.append(f"{verb} {name}".strip())
            getattr(walk, verb)(*([name] if name else []))
        walk.settle()
        walk.check()
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(walk.history)}")
        raise
    finally:
        walk.sites.close()
