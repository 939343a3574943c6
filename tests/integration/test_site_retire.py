"""A site goes out of service: what it did is pushed, and nobody waits for it."""

from __future__ import annotations

from collections import Counter

import pytest
from typer.testing import CliRunner

import deferred
import masters
import snapshots
from deferred.queues import backlog
from sites import Directory, Site, faults
from sites.errors import SiteUnreachable
from sites.faults import InjectedFault
from snaptide.cli import app
from snaptide.plan import retire
from snaptide.plan.errors import StillInUse, WouldBeLost
from snaptide.plan.steps import DropSnapshot
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.linked_table import parked, rows, run

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "store1", "store2")
def sites(sites: Directory) -> None:
    """A parent and a child at store1, a parent at store2, and a schedule."""
    hq, store1, store2 = (sites[name] for name in ("hq", "store1", "store2"))
    run(
        hq,
        "CREATE TABLE public.parent (id int PRIMARY KEY, n int)",
        "CREATE TABLE public.child (id int PRIMARY KEY, of int REFERENCES parent)",
        "CREATE INDEX ON public.child (of)",
        "INSERT INTO public.parent VALUES (1, 1), (2, 2)",
        "INSERT INTO public.child VALUES (1, 1)",
    )
    log(hq, "parent", "child")
    for site in (store1, store2):
        snapshots.create(site, "parent", master="hq", group="g", updatable=True)
    snapshots.create(
        store1, "child", master="hq", group="g", follow=["parent"], updatable=True
    )
    for site in (store1, store2):
        snapshots.refresh(site, "g")
    deferred.schedule(store1, "refresh", "g", every="1h")


def registered(site: Site) -> list[tuple[str, ...]]:
    query = "SELECT site_name, snapshot FROM snaptide.registered_snapshot ORDER BY 1, 2"
    return run(site, query)


def test_it_pushes_drops_and_is_forgotten(sites: Directory) -> None:
    hq, store1 = sites["hq"], sites["store1"]
    run(store1, "UPDATE public.parent SET n = 7 WHERE id = 1")
    run(store1, "INSERT INTO public.child VALUES (2, 1)")
    done = retire(store1)
    assert (done.pushed, done.lost, done.away) == (2, (), ())
    assert [one.command for one in done.steps] == [
        "snaptide schedule remove store1 refresh g",
        "snaptide snapshot drop store1 child",
        "snaptide snapshot drop store1 parent",
    ]
    assert rows(hq, "parent") == [(1, 7), (2, 2)]
    assert rows(hq, "child") == [(1, 1), (2, 1)]
    assert snapshots.list_snapshots(store1) == []
    assert registered(hq) == [("store2", "parent")]
    again = retire(store1)
    assert (again.steps, again.unregistered) == ((), {})


def test_it_can_be_called_again_after_each_step(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPTIDE_FAULT", "site_retire.after_step:error")
    for _ in range(3):
        monkeypatch.setattr(faults, "_hits", Counter())
        with pytest.raises(InjectedFault):
            retire(sites["store1"])
    assert retire(sites["store1"]).steps == ()
    assert registered(sites["hq"]) == [("store2", "parent")]


def test_what_would_be_lost_is_said_and_nothing_is_dropped(sites: Directory) -> None:
    hq, store1 = sites["hq"], sites["store1"]
    run(hq, "UPDATE public.parent SET n = 5 WHERE id = 1")
    run(store1, "UPDATE public.parent SET n = 7 WHERE id = 1")
    with pytest.raises(WouldBeLost) as refused:
        retire(store1)
    assert refused.value.message == (
        "Site store1: 1 parked transaction at hq (snaptide errors list hq --origin"
        " store1)."
    )
    backlog.set_disabled(store1, "hq", disabled=True)
    run(store1, "UPDATE public.parent SET n = 8 WHERE id = 2")
    with pytest.raises(WouldBeLost, match="1 change in queue for hq: pushes"):
        retire(store1)
    assert len(snapshots.list_snapshots(store1)) == 2
    assert len(deferred.list_schedules(store1)) == 1
    done = retire(store1, force=True)
    assert len(done.lost) == 3
    assert snapshots.list_snapshots(store1) == []
    # What the master has taken stays in its error queue.
    assert len(parked(hq)) == 1
    assert rows(hq, "parent") == [(1, 5), (2, 2)]


def test_a_site_that_others_need_stays(sites: Directory) -> None:
    store1, store2 = sites["store1"], sites["store2"]
    run(store1, "CREATE TABLE public.own (id int PRIMARY KEY)")
    masters.create_snapshot_log(store1, "own")
    snapshots.create(store2, "own", master="store1")
    with pytest.raises(StillInUse, match="it is the master of store2:own"):
        retire(store1, force=True)
    assert len(snapshots.list_snapshots(store1)) == 2


def test_a_site_that_is_gone_is_forgotten_everywhere(
    sites: Directory, write_settings: WriteSettings
) -> None:
    # A master that kept a snapshot which its site had switched away.
    run(
        sites["hq"],
        "INSERT INTO snaptide.registered_snapshot"
        " (site_id, snapshot, site_name, table_schema, table_name, updatable)"
        " VALUES (gen_random_uuid(), 'old', 'store1', 'public', 'parent', false)",
    )
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in sites.items()}
    urls["store1"] = urls["store1"].replace("/store1", "/nowhere")
    with Directory(urls) as elsewhere:
        config = str(write_settings(elsewhere))

        def call(*arguments: str) -> tuple[int, str]:
            done = CliRunner().invoke(
                app, ["--config", config, "site", "retire", "store1", *arguments]
            )
            return done.exit_code, done.output

        assert call()[0] == 4
        code, said = call("--force")
    assert (code, "hq has forgotten child, old, parent." in said) == (3, True), said
    assert registered(sites["hq"]) == [("store2", "parent")]


def test_a_master_that_is_away_is_named_once(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in sites.items()}
    urls["hq"] = urls["hq"].replace("/hq", "/nowhere")
    run(sites["store1"], "UPDATE public.parent SET n = 7 WHERE id = 1")
    with Directory(urls) as alone:
        with pytest.raises(WouldBeLost) as refused:
            retire(alone["store1"])
        assert refused.value.message.count("cannot be reached") == 1
        assert "1 change in queue for hq" in refused.value.message
        assert len(snapshots.list_snapshots(sites["store1"])) == 2
        done = retire(alone["store1"], force=True)
        assert (done.away, len(done.lost)) == (("hq",), 2)
    assert snapshots.list_snapshots(sites["store1"]) == []
    assert retire(sites["store1"]).unregistered == {"hq": ("child", "parent")}

    # It went away in the middle: the site still has its snapshots, and does not go.
    def lost(*_: object) -> None:
        raise SiteUnreachable("Site hq cannot be reached.")

    monkeypatch.setattr(DropSnapshot, "run", lost)
    with pytest.raises(SiteUnreachable):
        retire(sites["store2"], force=True)
    assert registered(sites["hq"]) == [("store2", "parent")]


def test_rows_that_left_and_are_kept_are_not_dropped_unasked(sites: Directory) -> None:
    store2 = sites["store2"]
    snapshots.alter_leaving(store2, "parent", "keep")
    snapshots.alter_condition(store2, "parent", where="id = 1")
    snapshots.refresh(store2, "g", allow_mass_delete=True)
    with pytest.raises(WouldBeLost, match="1 row that left parent and are kept"):
        retire(store2)
    assert len(retire(store2, force=True).steps) == 1


def test_changes_that_were_withdrawn_are_not_lost_unasked(sites: Directory) -> None:
    store2 = sites["store2"]
    snapshots.alter_leaving(store2, "parent", "park")
    run(store2, "UPDATE public.parent SET n = 8 WHERE id = 1")
    snapshots.alter_condition(store2, "parent", where="id = 2")
    snapshots.refresh(store2, "g", allow_mass_delete=True, push_deferred_rpc=False)
    with pytest.raises(WouldBeLost, match="1 parked transaction at store2"):
        retire(store2)
