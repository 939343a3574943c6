"""Waiting until a site shows what another one has pushed."""

from __future__ import annotations

from datetime import timedelta
from threading import Timer

import pytest

import deferred
import snapshots
from deferred.pushing.push import push_small
from deferred.pushing.report import NotAToken, Token
from sites import Directory, Site
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.errors import NotShownInTime
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run, scalar
from tests.stories import refresh, user

pytestmark = pytest.mark.usefixtures("spark")

NOW = timedelta(0)


@prepared_once("hq", "jfk", "lax")
def three(sites: Directory) -> None:
    """Two sites with a snapshot of one table; lax has another of a table beside it."""
    hq, jfk, lax = sites["hq"], sites["jfk"], sites["lax"]
    for table in ("bags", "cars"):
        run(
            hq,
            f"CREATE TABLE public.{table} (id int PRIMARY KEY, kg int)",
            f"INSERT INTO public.{table} VALUES (1, 20), (2, 30)",
        )
        log(hq, table)
    snapshots.create(jfk, "bags", master="hq", updatable=True)
    snapshots.create(lax, "bags", master="hq", updatable=True)
    snapshots.create(lax, "cars", master="hq")
    refresh(jfk, "bags")
    for group in ("bags", "cars"):
        refresh(lax, group)


@pytest.fixture
def sites(three: Directory) -> Directory:
    return three


def pushed(site: Site, kg: int) -> str:
    """Change a row and push; returns the token."""
    run(site, f"UPDATE public.bags SET kg = {kg} WHERE id = 1")
    token = deferred.push(site).token
    assert token is not None
    return token


def test_a_site_shows_it_after_its_refresh(sites: Directory) -> None:
    jfk, lax = sites["jfk"], sites["lax"]
    token = pushed(jfk, 21)
    with pytest.raises(NotShownInTime, match=r"group bags was last .*; group cars was"):
        snapshots.wait_for(lax, token, NOW)
    refresh(lax, "bags")
    assert snapshots.wait_for(lax, token, NOW, group="bags").groups == ("bags",)
    assert scalar(lax, "SELECT kg FROM public.bags WHERE id = 1") == 21
    with pytest.raises(NotShownInTime, match=r"hq: group cars was[^;]*$") as refused:
        snapshots.wait_for(lax, token, NOW)
    assert refused.value.facts["groups"] == ["cars"]


def test_a_refresh_that_finds_nothing_new_is_enough(sites: Directory) -> None:
    jfk, lax = sites["jfk"], sites["lax"]
    before = run(lax, "SELECT position::text FROM snaptide.refresh_group")
    token = pushed(jfk, 21)
    refresh(lax, "cars")
    assert run(lax, "SELECT position::text FROM snaptide.refresh_group") == before
    assert snapshots.wait_for(lax, token, NOW, group="cars").held_back == 0


def test_the_wait_ends_when_a_refresh_has_come(sites: Directory) -> None:
    jfk, lax = sites["jfk"], sites["lax"]
    token = pushed(jfk, 21)
    # What else refreshes there; a timer, as this thread waits.
    later = Timer(0.3, refresh, (lax, "bags"))
    later.start()
    shown = snapshots.wait_for(lax, token, timedelta(seconds=60), group="bags")
    later.join()
    assert shown.seconds >= 0.2


def test_the_site_that_pushed_can_wait_as_well(sites: Directory) -> None:
    token = pushed(sites["jfk"], 21)
    with pytest.raises(NotShownInTime):
        snapshots.wait_for(sites["jfk"], token, NOW)
    refresh(sites["jfk"], "bags")
    snapshots.wait_for(sites["jfk"], token, NOW)


def test_a_push_that_finds_nothing_has_the_token_of_those_before(
    sites: Directory,
) -> None:
    """A worker that listens has pushed, perhaps, before the program came to it."""
    jfk, lax = sites["jfk"], sites["lax"]
    run(jfk, "UPDATE public.bags SET kg = 21 WHERE id = 1")
    assert push_small(jfk, "hq", stop=lambda: False).token is None
    done = deferred.push(jfk)
    assert done.transactions == 0
    assert done.token is not None
    with pytest.raises(NotShownInTime):
        snapshots.wait_for(lax, done.token, NOW)
    for group in ("bags", "cars"):
        refresh(lax, group)
    snapshots.wait_for(lax, done.token, NOW)


def test_a_long_transaction_at_the_master_holds_nothing_up(sites: Directory) -> None:
    hq, jfk, lax = sites["hq"], sites["jfk"], sites["lax"]
    with user(hq) as writer:
        writer.execute("SELECT pg_current_xact_id()")
        token = pushed(jfk, 21)
        refresh(lax, "bags")
        snapshots.wait_for(lax, token, NOW, group="bags")


def test_a_snapshot_that_stays_behind_does_not_show_it(sites: Directory) -> None:
    jfk, lax = sites["jfk"], sites["lax"]
    token = pushed(jfk, 21)
    run(
        lax,
        "UPDATE snaptide.snapshot SET position = (SELECT position FROM"
        " snaptide.refresh_group WHERE name = 'bags') WHERE name = 'bags'",
        "UPDATE snaptide.refresh_group SET position = '9:999999999:'",
    )
    with pytest.raises(NotShownInTime, match="group bags was"):
        snapshots.wait_for(lax, token, NOW)


def test_a_snapshot_without_rows_does_not_show_it(sites: Directory) -> None:
    """It came into a group that was refreshed after the push."""
    jfk, lax = sites["jfk"], sites["lax"]
    token = pushed(jfk, 21)
    refresh(lax, "cars")
    snapshots.create(lax, "more", master="hq", table="bags", group="cars")
    with pytest.raises(NotShownInTime, match="cars has a snapshot that no refresh has"):
        snapshots.wait_for(lax, token, NOW, group="cars")
    refresh(lax, "cars")
    snapshots.wait_for(lax, token, NOW, group="cars")


def test_rows_that_are_held_back_are_counted(sites: Directory) -> None:
    jfk, lax = sites["jfk"], sites["lax"]
    run(lax, "UPDATE public.bags SET kg = 99 WHERE id = 1")
    token = pushed(jfk, 21)
    refresh(lax, "bags")
    assert snapshots.wait_for(lax, token, NOW, group="bags").held_back == 1


def test_a_master_that_was_repaired_is_another_one(sites: Directory) -> None:
    jfk, lax = sites["jfk"], sites["lax"]
    token = Token.parse(pushed(jfk, 21))
    refresh(lax, "bags")
    other = "6f1cf1c8-7fd5-4a3e-9d4a-0d5a4dfc3f42"
    stale = f"{token.master}@{other}@{token.position}"
    with pytest.raises(NotShownInTime, match="shows another state of hq"):
        snapshots.wait_for(lax, stale, NOW, group="bags")


@pytest.mark.parametrize("given", ["", "hq", "hq@1@1:1:", "hq@@1:1:", "x@y"])
def test_another_text_is_no_token(sites: Directory, given: str) -> None:
    with pytest.raises(NotAToken):
        snapshots.wait_for(sites["lax"], given)


def test_a_site_without_snapshots_of_the_master_never_shows_it(
    sites: Directory,
) -> None:
    token = pushed(sites["jfk"], 21)
    with pytest.raises(UnknownSnapshot, match="no refresh group of master hq; it has"):
        snapshots.wait_for(sites["hq"], token)
    with pytest.raises(UnknownSnapshot, match="bags of hq, cars of hq"):
        snapshots.wait_for(sites["lax"], token, group="nope")


def test_the_command(sites: Directory, snaptide: Snaptide) -> None:
    run(sites["jfk"], "UPDATE public.bags SET kg = 21 WHERE id = 1")
    [done] = snaptide.report("push", "jfk")
    only = ("wait", "lax", done["token"], "--group", "bags", "--timeout")
    assert "SNP-457" in snaptide.said(*only, "0.3s", code=1)
    refresh(sites["lax"], "bags")
    assert snaptide.report(*only, "0.3s")["groups"] == ["bags"]
    assert "--timeout takes a duration" in snaptide.said(*only, "soon", code=2)
