"""A contract that is changed or dropped in the middle of a refresh."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import masters
import snapshots
from masters import OnBreach
from sites import Directory, Site, faults
from snapshots.errors import PositionMoved
from tests.at_point import AtPoint
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.let_go import WAITS
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)

POINTS = [
    "refresh.after_register",
    "refresh.after_window",
    "refresh.after_stage",
    "refresh.before_merge_commit",
    "refresh.after_merge",
    "refresh.before_advance",
]


@prepared_once("hq", "jfk", needs="spark")
def promised(sites: Directory) -> None:
    """A table of hq in a refresh group of jfk, with a contract."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, n int)",
        "INSERT INTO public.t SELECT i, 0 FROM generate_series(1, 5) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", group="g", updatable=True)
    snapshots.refresh(jfk, "g")
    snapshots.set_contract(jfk, "g", visible_within=HOUR, answered_within=HOUR)


def test_a_group_that_is_dropped_meanwhile_has_no_contract(
    promised: Directory,
) -> None:
    """Its site keeps nothing, so the master would keep a contract of nobody."""
    hq, jfk = promised["hq"], promised["jfk"]
    masters.drop_contract(hq, "jfk", "g")
    with ThreadPoolExecutor(1) as pool:
        with hq.transaction() as connection:
            connection.exec_driver_sql("LOCK TABLE snaptide.contract IN SHARE MODE")
            made = pool.submit(snapshots.set_contract, jfk, "g", visible_within=HOUR)
            eventually(lambda: run(hq, WAITS), what="the contract: to wait")
            snapshots.drop(jfk, "t")
        with pytest.raises(PositionMoved):
            made.result(timeout=60)
    assert masters.list_contracts(hq) == []


def _kept(jfk: Site) -> list[tuple[object, ...]]:
    """What the site has of the contract."""
    columns = "visible_within, answered_within, repair"
    return run(jfk, f"SELECT {columns} FROM snaptide.promise")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("change", ["changed", "dropped", "dropped and set"])
def test_the_site_has_what_the_master_promises_last(
    promised: Directory, monkeypatch: pytest.MonkeyPatch, point: str, change: str
) -> None:
    hq, jfk = promised["hq"], promised["jfk"]
    run(hq, "UPDATE t SET n = 1 WHERE id = 1")

    def act() -> None:
        if change != "changed":
            masters.drop_contract(hq, "jfk", "g")
        if change != "dropped":
            snapshots.set_contract(
                jfk,
                "g",
                visible_within=MINUTE,
                may_be_away=HOUR,
                on_breach=OnBreach.REPAIR,
            )

    at = AtPoint(point, act)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", at.point)
        snapshots.refresh(jfk, "g")
    assert at.reached
    assert run(jfk, "SELECT n FROM t WHERE id = 1") == [(1,)]
    masters.look_at_contracts(hq)
    expected = [] if change == "dropped" else [(MINUTE, None, True)]
    assert _kept(jfk) == expected
    made = masters.list_contracts(hq)
    assert [(one.visible_within, one.answered_within) for one in made] == [
        row[:2] for row in expected
    ]


@pytest.mark.parametrize("point", POINTS)
def test_a_site_that_is_released_while_it_refreshes_loses_nothing(
    promised: Directory, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The master stops keeping its logs, and has purged them, before the merge."""
    hq, jfk = promised["hq"], promised["jfk"]
    snapshots.set_contract(jfk, "g", log_share=1, on_breach=OnBreach.RELEASE)
    run(hq, "UPDATE t SET n = 1 WHERE id = 1")

    def release() -> None:
        run(hq, "UPDATE t SET n = 2 WHERE id IN (1, 2)")
        masters.look_at_contracts(hq)
        masters.purge_snapshot_logs(hq)

    at = AtPoint(point, release)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", at.point)
        snapshots.refresh(jfk, "g")
    assert at.reached
    for number in (1, 2):
        snapshots.refresh(jfk, "g")
        assert run(jfk, "TABLE t ORDER BY 1") == run(hq, "TABLE t ORDER BY 1")
        run(hq, f"UPDATE t SET n = {number + 5} WHERE id = 3")
