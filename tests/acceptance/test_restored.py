"""A site or a master is restored, promoted, moved: nothing is lost, nothing is twice.

Every transaction adds a power of two to one row, and the master adds up what arrives
(method additive): the sum tells which were applied, and whether one was twice.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import deferred
import snapshots
from deferred.errors import CannotTell
from sites.errors import SiteChanged, SiteRestored
from snaptide import doctor, migrate
from snaptide.doctor import Severity
from snaptide.repair import repair
from tests.fix_world import BEFORE, QUEUED, World
from tests.linked_table import parked, queued, run
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

#: At the site: pushed before the backup, queued in it, pushed after it, queued after
#: it, queued after the restore. At the master: after the backup, after the restore.
PUSHED, LAST, AFTER, LOST, NEW = (2**n for n in range(2, 7))
SUM = "SELECT n FROM public.t WHERE id = 1"
IDS = "SELECT id FROM public.t WHERE id > 1 ORDER BY id"


Restore = Callable[[], None]
#: Takes a backup of a site, and returns what restores it.
Backup = Callable[[World, str], Restore]


def burned(world: World, name: str) -> Restore:
    """A copy of the files, the same database by every number that it has.

    And more transaction ids are used up again than were lost.
    """
    home = world.homes[name]
    world.directory.close()
    copy = home.copy_files()

    def restore() -> None:
        world.directory.close()
        home.put_files_back(copy)
        home.burn(5000)

    return restore


def dumped(world: World, name: str) -> Restore:
    """A dump, loaded into a new cluster: transaction ids begin anew."""
    home = world.homes[name]
    # The new one is behind for sure.
    home.burn(5000)
    dump = home.dump(world.databases[name])

    def restore() -> None:
        url = world.homes["spare"].load(dump, world.databases[name])
        world.move(name, url)

    return restore


def elsewhere(world: World, name: str) -> Restore:
    """A dump, loaded into another database of the same cluster."""
    home = world.homes[name]
    dump = home.dump(world.databases[name])

    def restore() -> None:
        world.move(name, home.load(dump, f"{world.databases[name]}_2"))

    return restore


def promoted(world: World, name: str) -> Restore:
    """A standby that had fallen behind: another timeline."""
    home = world.homes[name]
    standby = home.base_backup()

    def restore() -> None:
        server = home.promote(standby)
        world.move(name, server.url(world.databases[name]))

    return restore


BACKUPS = [burned, dumped, elsewhere, promoted]


def live_on(world: World) -> None:
    """What happens between the backup and the restore."""
    world.add("jfk", PUSHED)
    deferred.push(world.jfk)
    world.add("hq", LOST)
    refresh(world.jfk, "t")
    world.add("jfk", LAST)


def assert_refused(world: World, name: str) -> None:
    """Push and refresh say what is wrong with which site, and what to do."""
    for attempt in (
        lambda: deferred.push(world.jfk),
        lambda: refresh(world.jfk, "t"),
        lambda: refresh(world.jfk, "t", method="c"),
    ):
        with pytest.raises((SiteChanged, SiteRestored)) as caught:
            attempt()
        assert name in caught.value.message
        assert "--repair" in caught.value.hint
    fatal = [
        finding
        for site in (world.hq, world.jfk)
        for finding in doctor.check_site(site)
        if finding.severity is Severity.FATAL
    ]
    assert fatal
    assert {finding.site for finding in fatal} == {name}
    assert all(f"site check {name} --repair" in finding.todo for finding in fatal)


def assert_settled(world: World, applied: int) -> None:
    """The sites agree, and hold each of these transactions once, and no other."""
    settle(world.jfk)
    assert_equal_to_master(world.jfk)
    assert run(world.hq, SUM) == [(applied,)]
    amounts = [2**n for n in range(7) if applied & 2**n]
    assert run(world.hq, IDS) == [(1000 + amount,) for amount in amounts]
    assert parked(world.hq) == []
    assert all(
        finding.severity is not Severity.FATAL
        for site in (world.hq, world.jfk)
        for finding in doctor.check_site(site)
    )


@pytest.mark.parametrize("backup", BACKUPS)
def test_master_restored(world: World, backup: Backup) -> None:
    """What the site still keeps is pushed again; what only the master had is gone."""
    restore = backup(world, "hq")
    live_on(world)
    restore()
    world.add("jfk", AFTER)
    world.add("hq", NEW)
    assert_refused(world, "hq")
    assert repair(world.hq).repaired
    assert_settled(world, BEFORE + QUEUED + PUSHED + LAST + AFTER + NEW)


@pytest.mark.parametrize("backup", BACKUPS)
def test_site_restored(world: World, backup: Backup) -> None:
    """What was pushed since is not pushed again; what is queued now is not lost."""
    restore = backup(world, "jfk")
    live_on(world)
    restore()
    world.add("jfk", AFTER)
    world.add("hq", NEW)
    assert_refused(world, "jfk")
    assert repair(world.jfk).repaired
    assert_settled(world, BEFORE + QUEUED + PUSHED + LOST + AFTER + NEW)


def test_site_older_than_the_ledger_begins_anew(world: World) -> None:
    """By hand, as the page After a restore says: nobody can tell what was applied."""
    restore = elsewhere(world, "jfk")
    deferred.push(world.jfk)
    world.add("jfk", PUSHED)
    deferred.push(world.jfk)
    run(world.hq, "UPDATE snaptide.push_batch SET shipped_at = now() - interval '1 y'")
    deferred.purge(world.hq)
    restore()
    assert repair(world.jfk).repaired
    with pytest.raises(CannotTell, match="restored to batch"):
        deferred.push(world.jfk)
    assert queued(world.jfk) == 1

    snapshots.drop(world.jfk, "t", force=True)
    migrate.downgrade(world.jfk, "base")
    migrate.upgrade(world.jfk)
    snapshots.create(world.jfk, "t", master="hq", updatable=True)
    refresh(world.jfk, "t")
    world.add("jfk", NEW)
    deferred.push(world.jfk)
    assert_settled(world, BEFORE + QUEUED + PUSHED + NEW)
