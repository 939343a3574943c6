"""A master to which snapshots were switched is restored, and the former one is away."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy.exc import OperationalError
from tenacity import retry, retry_if_exception_type, stop_after_delay

import deferred
import groups
import snapshots
from deferred.errors import PastRetention
from sites import Directory
from snaptide import doctor
from snaptide.repair import repair
from tests.fix_db import Clone
from tests.fix_worlds import prepared_once
from tests.grouped import (
    THREE,
    assert_masters_equal,
    found_adding_up,
    push_all,
    push_among,
    without,
)
from tests.linked_table import rows, run

pytestmark = pytest.mark.usefixtures("spark")

ADD = "UPDATE orders SET qty = qty + {} WHERE id = 1"


@prepared_once(*THREE, "jfk")
def world(sites: Directory) -> None:
    """Three masters whose quantities add up, one row; a snapshot of hq."""
    found_adding_up(sites, 1)


def urls_of(world: Directory) -> dict[str, str]:
    return {
        name: site.url.set(drivername="postgresql").render_as_string(
            hide_password=False
        )
        for name, site in world.items()
    }


def quantities(sites: Directory, *names: str) -> list[object]:
    return [rows(sites[name])[0][2] for name in names]


@retry(retry=retry_if_exception_type(OperationalError), stop=stop_after_delay(90))
def back_up(world: Directory, clone: Clone) -> str:
    """A copy of lax as it is now."""
    name = urls_of(world)["lax"].rpartition("/")[2]
    world.close()
    return clone(name, "lax")


def between_two_changes(world: Directory, clone: Clone) -> str:
    """A copy of lax that has the first of two changes of jfk."""
    run(world["jfk"], ADD.format(1))
    push_all(world)
    backup = back_up(world, clone)
    run(world["jfk"], ADD.format(10))
    push_all(world)
    return backup


@contextmanager
def restored(urls: Mapping[str, str], backup: str) -> Iterator[Directory]:
    """All sites, lax as it was, when nobody can reach hq."""
    sites = Directory({**urls, "lax": backup})
    try:
        with without(sites, "hq") as left:
            repair(left["lax"])
            yield left
    finally:
        sites.close()


def test_what_it_had_from_the_former_master_is_sent_again(
    world: Directory, clone: Clone
) -> None:
    """It counts as delivered there, but the backup is older, and nobody else has it."""
    urls, backup = urls_of(world), between_two_changes(world, clone)
    with without(world, "hq") as left:
        assert groups.switch_master(left["jfk"], "orders", to="lax").settled == 2
        run(left["jfk"], ADD.format(100))
        push_among(left, "jfk", "lax", "bos")
        assert quantities(left, "lax", "bos") == [111, 111]
    with restored(urls, backup) as left:
        run(left["jfk"], ADD.format(1000))
        push_among(left, "jfk", "lax", "bos")
        assert quantities(left, "lax", "bos") == [1111, 1111]
        assert deferred.list_errors(left["lax"]) == []
        snapshots.refresh(left["jfk"], "orders")
        assert quantities(left, "jfk") == [1111]
    with Directory({**urls, "lax": backup}) as all_of_them:
        push_all(all_of_them)
        [row] = assert_masters_equal(all_of_them, *THREE)
        assert row[2] == 1111


@pytest.mark.parametrize("in_backup", [True, False])
def test_what_is_purged_is_said_to_be_lost(
    world: Directory, clone: Clone, in_backup: bool
) -> None:
    """Unless the backup has it: the switch came later."""
    urls, backup = urls_of(world), between_two_changes(world, clone)
    if in_backup:
        backup = back_up(world, clone)
    with without(world, "hq") as left:
        assert groups.switch_master(left["jfk"], "orders", to="lax").settled == 2
        assert deferred.purge(left["jfk"], retention=timedelta()).transactions == 2
    with restored(urls, backup) as left:
        jfk = left["jfk"]
        run(jfk, ADD.format(100))
        if not in_backup:
            with pytest.raises(PastRetention, match="through another master"):
                deferred.push(jfk)
            [found] = [one for one in doctor.check_site(jfk) if one.subject == "queue"]
            assert "--repair" in found.todo
            assert len(repair(jfk).reasons) == 1
        deferred.push(jfk)
        assert quantities(left, "lax") == [111 if in_backup else 101]
