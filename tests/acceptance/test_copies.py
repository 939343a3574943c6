"""A copy of a site and the original both go on: each change arrives once."""

from __future__ import annotations

from pathlib import Path

import pytest

import deferred
import snapshots
from sites import Directory
from sites.errors import SiteChanged, SiteReplaced, SiteRestored
from snaptide import doctor
from snaptide.errors import CannotRepair
from snaptide.repair import repair
from tests.fix_world import BEFORE, QUEUED, World
from tests.linked_table import parked, run
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

#: A change that a site took out of its own queue.
_WITHDRAWN = """
INSERT INTO snaptide.error_transaction (origin_id, origin, origin_transaction,
    origin_user, batch_no, order_no, start_time, reason, error_code, error_message)
SELECT gen_random_uuid(), 'jfk', '7', 'me', 0, {}, now(), 'withdrawn', '', ''
"""
#: As after a purge of what was pushed.
_PURGED = (
    "UPDATE snaptide.destination SET purged_batch = batch_no, purged_order = batch_end"
)
SUM = "SELECT n FROM public.t WHERE id = 1"
COPY_PUSHED, COPY_QUEUED, ORIGINAL, LATER = 4, 8, 16, 32


def test_copy_that_went_on_as_the_original(world: World) -> None:
    """The copy was first; the original takes its place again, the copy gets its own."""
    copy = _copy_of_files(world)
    original = world.urls["jfk"]
    world.move("jfk", copy)
    world.add("jfk", COPY_PUSHED)
    deferred.push(world.jfk)
    world.add("jfk", COPY_QUEUED)
    world.move("jfk", original)
    world.add("jfk", ORIGINAL)
    with pytest.raises(SiteRestored, match="jfk is older"):
        deferred.push(world.jfk)
    assert repair(world.jfk).repaired
    deferred.push(world.jfk)
    assert run(world.hq, SUM) == [(BEFORE + QUEUED + COPY_PUSHED + ORIGINAL,)]

    world.move("jfk", copy)
    for attempt in (lambda: deferred.push(world.jfk), lambda: refresh(world.jfk, "t")):
        with pytest.raises(SiteReplaced, match="taken over as site jfk"):
            attempt()
    world.move("jfk", original)
    world.move("lga", copy)
    lga = world.directory["lga"]
    report = repair(lga)
    assert (report.copy_of, report.left_to_original) == ("jfk", 3)
    world.add("lga", LATER)
    settle(world.jfk, lga)
    settle(world.jfk, lga)
    assert_equal_to_master(world.jfk, lga)
    expected = BEFORE + QUEUED + COPY_PUSHED + ORIGINAL + COPY_QUEUED + LATER
    assert run(world.hq, SUM) == [(expected,)]
    assert parked(world.hq) == []
    assert [s.method for s in snapshots.refresh(lga, "t").snapshots] == ["fast"]


def test_copy_of_a_database_becomes_a_site(world: World) -> None:
    """It is known by its number; what was queued before belongs to the original."""
    home, database = world.homes["jfk"], world.databases["jfk"]
    run(world.jfk, _WITHDRAWN.format(1), _PURGED)
    world.directory.close()
    url = home.server.create_database(f"{database}_lga", template=database)
    world.move("lga", url)
    lga = world.directory["lga"]
    with pytest.raises(SiteChanged):
        deferred.push(lga)
    [found] = [f for f in doctor.check_site(lga) if f.subject == "identity"]
    assert "site check lga --repair" in found.todo

    alone = Directory({"hq": world.urls["hq"], "lga": url})
    with pytest.raises(CannotRepair, match="jfk"):
        repair(alone["lga"])
    alone.close()

    world.add("lga", COPY_QUEUED)
    world.add("jfk", ORIGINAL)
    run(lga, _WITHDRAWN.format(2))
    assert repair(lga).left_to_original == 2
    for site, numbers in ((world.jfk, [1]), (lga, [2])):
        assert [one.order_no for one in deferred.list_errors(site)] == numbers
    settle(lga, world.jfk)
    settle(lga, world.jfk)
    assert_equal_to_master(lga, world.jfk)
    assert run(world.hq, SUM) == [(BEFORE + QUEUED + COPY_QUEUED + ORIGINAL,)]
    assert parked(world.hq) == []


def test_copy_leaves_what_the_original_has_withdrawn(world: World) -> None:
    """It stands in the queue of the copy alone, and is decided about there."""
    home, database = world.homes["jfk"], world.databases["jfk"]
    world.directory.close()
    url = home.server.create_database(f"{database}_lga", template=database)
    world.move("lga", url)
    run(
        world.jfk,
        "INSERT INTO snaptide.error_transaction (origin_id, origin, origin_transaction,"
        " origin_user, batch_no, order_no, start_time, reason, error_code,"
        " error_message) SELECT gen_random_uuid(), 'jfk', t.xid::text, 'me', 0,"
        " t.order_no, t.start_time, 'withdrawn', '', ''"
        " FROM snaptide.deferred_transaction t"
        " JOIN snaptide.delivery d ON d.xid = t.xid AND d.batch IS NULL",
        'DELETE FROM snaptide."def$_t" WHERE xid IN'
        " (SELECT xid FROM snaptide.delivery WHERE batch IS NULL)",
        "DELETE FROM snaptide.deferred_transaction WHERE xid IN"
        " (SELECT xid FROM snaptide.delivery WHERE batch IS NULL)",
        "DELETE FROM snaptide.delivery_row WHERE batch IS NULL",
    )
    lga = world.directory["lga"]
    assert repair(lga).left_to_original == 2
    settle(lga)
    assert run(world.hq, SUM) == [(BEFORE,)]


def _copy_of_files(world: World) -> str:
    """Another server with the same database, by every number that it has."""
    world.directory.close()
    home = world.homes["jfk"]
    files: Path = home.copy_files()
    return home.beside(files).url(world.databases["jfk"])
