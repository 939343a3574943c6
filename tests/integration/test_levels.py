"""Levels, validity and status as Virtuoso has them: `repl_level` and `repl_status`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.errors import NoDataFound

import deferred
import masters
import snapshots
from deferred.errors import DestinationInvalid
from deferred.queues.backlog import set_disabled
from sites import Directory, Site
from sites.errors import SiteUnreachable
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import refresh, user

pytestmark = pytest.mark.usefixtures("spark")

OFF, SYNCING, IN_SYNC, REMOTE_DISCONNECTED, DISCONNECTED = range(5)


@prepared_once("hq", "jfk")
def items(sites: Directory) -> None:
    """A subscriber of two tables, one of which asks the other."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        'CREATE TABLE public."shop.s" (id int PRIMARY KEY, place text)',
        "CREATE TABLE public.items (id int PRIMARY KEY, shop int, price int)",
        "INSERT INTO public.\"shop.s\" VALUES (1, 'JFK')",
        "INSERT INTO public.items VALUES (1, 1, 10), (2, 1, 20)",
    )
    log(hq, "items", '"shop.s"')
    snapshots.create(jfk, '"shop.s"', master="hq", group="pub")
    snapshots.create(
        jfk,
        "items",
        master="hq",
        group="pub",
        updatable=True,
        where='EXISTS (SELECT FROM "shop.s" s WHERE s.id = shop)',
    )


@pytest.fixture
def sites(items: Directory) -> Directory:
    return items


def level(site: Site, account: str) -> Any:
    """A row of the view: level, published level, whether it is valid, and its state."""
    [row] = run(
        site,
        "SELECT level, published_level, valid, state FROM snaptide.repl_level"
        f" WHERE account = '{account}'",
    )
    return row


def state(site: Site, account: str) -> str:
    return str(level(site, account)[3])


def status(site: Site, account: str) -> tuple[int, int]:
    [row] = run(site, f"SELECT * FROM snaptide.repl_status('hq', '{account}')")
    return row


def test_a_subscription_is_off_then_syncing_then_in_sync(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    assert state(jfk, "pub") == state(hq, "items") == "off"
    assert status(jfk, "pub")[1] == OFF
    refresh(jfk, "pub")
    assert state(jfk, "pub") == state(hq, "items") == "in sync"
    first, stat = status(jfk, "pub")
    assert stat == IN_SYNC
    run(hq, "UPDATE public.items SET price = 11 WHERE id = 1")
    its, published, valid, now = level(hq, "items")
    assert (valid, now) == (True, "syncing")
    assert its < published
    # What the publisher says of itself: its own level.
    assert status(hq, "items")[0] >= published
    assert status(hq, "items")[1] == 0
    refresh(jfk, "pub")
    assert state(hq, "items") == "in sync"
    assert status(jfk, "pub")[0] > first


def test_a_snapshot_without_rows_is_not_in_sync(sites: Directory) -> None:
    """It came into a group that was refreshed before."""
    jfk = sites["jfk"]
    refresh(jfk, "pub")
    snapshots.create(jfk, "more", master="hq", table="items", group="pub")
    assert state(jfk, "pub") == "syncing"
    refresh(jfk, "pub")
    assert state(jfk, "pub") == "in sync"


def test_changes_of_a_table_that_is_asked_count(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    refresh(jfk, "pub")
    run(hq, "INSERT INTO public.\"shop.s\" VALUES (2, 'LAX')")
    assert state(hq, "items") == "syncing"


def test_changes_of_transactions_that_were_open_count(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    with user(hq) as writer:
        writer.execute("UPDATE public.items SET price = 12 WHERE id = 2")
        run(hq, "UPDATE public.items SET price = 11 WHERE id = 1")
        refresh(jfk, "pub")
        assert state(hq, "items") == "in sync"
        writer.commit()
    assert state(hq, "items") == "syncing"


def test_what_goes_back_is_syncing_until_the_master_has_it(sites: Directory) -> None:
    jfk = sites["jfk"]
    refresh(jfk, "pub")
    assert state(jfk, "!hq") == "in sync"
    run(jfk, "UPDATE public.items SET price = 11 WHERE id = 1")
    its, published, valid, now = level(jfk, "!hq")
    assert (valid, now) == (True, "syncing")
    assert its < published
    assert status(jfk, "!hq") == (its, SYNCING)
    deferred.push(jfk)
    assert level(jfk, "!hq") == (published, published, True, "in sync")
    assert status(jfk, "!hq") == (published, IN_SYNC)


def test_one_that_lags_too_far_is_invalid_until_it_is_made_valid(
    sites: Directory,
) -> None:
    jfk = sites["jfk"]
    refresh(jfk, "pub")
    deferred.set_budget(jfk, "hq", age=timedelta(0))
    run(jfk, "UPDATE public.items SET price = 11 WHERE id = 1")
    for _ in range(2):
        with pytest.raises(DestinationInvalid):
            deferred.push(jfk)
    assert level(jfk, "!hq")[2:] == (False, "invalid")
    assert status(jfk, "!hq")[1] == OFF
    deferred.validate_destination(jfk, "hq")
    assert level(jfk, "!hq")[2:] == (True, "syncing")
    deferred.push(jfk)
    assert state(jfk, "!hq") == "in sync"


def test_a_subscriber_that_the_log_does_not_reach_back_to_is_invalid(
    sites: Directory,
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    refresh(jfk, "pub")
    masters.drop_snapshot_log(hq, "items", force=True)
    assert level(hq, "items")[2:] == (True, "in sync")
    log(hq, "items")
    assert level(hq, "items")[2:] == (False, "invalid")
    refresh(jfk, "pub", method="c")
    assert level(hq, "items")[2:] == (True, "in sync")


def test_one_that_is_disabled_or_cut_off(sites: Directory) -> None:
    jfk = sites["jfk"]
    refresh(jfk, "pub")
    set_disabled(jfk, "hq", disabled=True)
    assert state(jfk, "!hq") == "off"
    set_disabled(jfk, "hq", disabled=False)
    here = jfk.url
    away = Directory({"hq": "postgresql://127.0.0.1:1/hq", "jfk": here})
    with pytest.raises(SiteUnreachable):
        deferred.push(away["jfk"])
    with pytest.raises(SiteUnreachable):
        refresh(away["jfk"], "pub")
    away["jfk"].close()
    assert status(jfk, "!hq")[1] == DISCONNECTED
    assert status(jfk, "pub")[1] == REMOTE_DISCONNECTED
    refresh(jfk, "pub")
    deferred.push(jfk)
    assert status(jfk, "!hq")[1] == status(jfk, "pub")[1] == IN_SYNC


def test_an_account_that_there_is_not(sites: Directory) -> None:
    with pytest.raises(NoDataFound, match="no account nope of server hq"):
        status(sites["jfk"], "nope")
