"""Crashes among masters that exchange changes, and sites of them, while users write.

Users book at all of them. In the end each master has each booking once, in its rows and
in its balances; every site equals its master.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from random import Random
from typing import ClassVar

import groups
import snapshots
from deferred.queues.queue import list_queues, undelivered_calls
from sites import Site
from snapshots.refreshing import former
from tests.campaign import crash, deck
from tests.campaign.group_verbs import GUEST, MASTERS, TABLES, VERBS_OF_MASTERS
from tests.campaign.kinds import Crash
from tests.campaign.servers import Servers
from tests.campaign.world import TABLES as DDL
from tests.campaign.world import World, assert_proven, prepare
from tests.fix_sites import name_site
from tests.grouped import GROUP, push_all
from tests.linked_table import run
from tests.stories import assert_equal_to_master, settle

#: Crashes before the end state is compared.
EPISODE = 25

#: By site, the master that it begins with.
_SITES = {"jfk": "hq", "sfo": "lax"}
#: By site, the refresh group of each table.
_SNAPSHOTS = {
    "jfk": {"account": "books", "booking": "books", "dispute": "disputes"},
    "sfo": {"account": "books", "booking": "books"},
}


class GroupWorld(World):
    """Three masters and a guest, and two sites."""

    databases: ClassVar = {
        **{name: name for name in MASTERS},
        **dict.fromkeys(_SITES, "jfk"),
        GUEST: "bos",
    }
    later: ClassVar = {}
    users_at: ClassVar = (*MASTERS, *_SITES)
    # A new master joins when nothing is on its way.
    pause: ClassVar = 5.0

    def assert_as_without_crashes(self) -> None:
        """Let everything settle, and see that each booking counts once everywhere."""
        subscribers = [self.sites[name] for name in _SITES]
        for _ in range(2):
            push_all(self.sites)
            settle(*subscribers)
        for site in subscribers:
            former.unregister_at_former(site, pause=timedelta())
        self.assert_settled()

    def assert_settled(self) -> None:
        """See that nothing is missing, twice, waiting or left over."""
        for name in self.databases:
            self._assert_each_once(self.sites[name])
        subscribers = [self.sites[name] for name in _SITES]
        assert_equal_to_master(*subscribers)
        for site in subscribers:
            assert_proven(site)
        compared = groups.check(self.hq, GROUP)
        assert compared.equal, compared
        kept = set()
        for name in _SITES:
            for one in snapshots.list_snapshots(self.sites[name]):
                kept.add((one.master, name, one.name))
        registered = set()
        first = self._contents(self.hq)
        for name in (*MASTERS, GUEST):
            assert self._contents(self.sites[name]) == first, name
            _assert_at_rest(self.sites[name])
            found = run(self.sites[name], _REGISTERED)
            registered |= {(name, *one) for one in found}
        assert registered == kept

    def _contents(self, master: Site) -> Mapping[str, list[tuple[object, ...]]]:
        return {t: run(master, f"SELECT * FROM public.{t} ORDER BY 1") for t in TABLES}

    def _build(self) -> None:
        for name in self.databases:
            name_site(self.sites[name])
        for name in (*MASTERS, GUEST):
            run(self.sites[name], *DDL)
            prepare(self.sites[name])
        groups.create_group(self.hq, GROUP)
        for table in TABLES:
            groups.add_table(self.hq, GROUP, table)
        for name in (*MASTERS[1:], GUEST):
            groups.add_master(self.hq, GROUP, name)
        for name, master in _SITES.items():
            for table, group in _SNAPSHOTS[name].items():
                snapshots.create(
                    self.sites[name], table, master=master, group=group, updatable=True
                )
            for group in sorted({*_SNAPSHOTS[name].values()}):
                snapshots.refresh(self.sites[name], group)


def points() -> list[str]:
    """All fault points of all verbs."""
    return deck.points(VERBS_OF_MASTERS)


def size(number: int) -> int:
    """How many crashes an episode has at most: all have as many."""
    del number
    return EPISODE


def episode(seed: int, number: int, crashes: int) -> Iterator[Crash]:
    """Crash while users write, and see that it ends as if nothing had been."""
    random = Random(f"{seed} {number}")
    world = _world()
    first = (number - 1) * EPISODE
    cards = deck.deal(VERBS_OF_MASTERS, seed, first, min(crashes, EPISODE))
    with world.users(number):
        for card in cards:
            yield crash.make(world, card, VERBS_OF_MASTERS[card.verb], random)
    world.assert_as_without_crashes()


def end() -> None:
    """Let the world go, which otherwise goes when the process ends."""
    world = _world()
    _world.cache_clear()
    atexit.unregister(world.close)
    world.close()


@cache
def _world() -> GroupWorld:
    """The world of this process; it goes when the process ends."""
    servers = Servers(*MASTERS, "jfk")
    servers.prepare()
    world = GroupWorld(servers)
    atexit.register(world.close)
    return world


def _assert_at_rest(master: Site) -> None:
    """See that nothing waits for anybody."""
    with master.transaction() as connection:
        for way in list_queues(connection):
            assert undelivered_calls(connection, way) == 0, (master.name, way)


_REGISTERED = "SELECT site_name, snapshot FROM snaptide.registered_snapshot"
