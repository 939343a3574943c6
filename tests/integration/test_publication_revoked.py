"""A grant that is revoked in the middle of a push or refresh, and given again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site, faults
from sites.errors import NotGranted, SnaptideError
from snapshots.differences import moved
from tests.at_point import AtPoint
from tests.fix_worlds import prepared_once
from tests.granted import STORE, grant_sales, let_in, sell
from tests.linked_table import parked, queued, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

MINE = "SELECT id, what, cost FROM public.sale WHERE store_id = 3 ORDER BY id"
OTHERS = "SELECT * FROM public.sale WHERE store_id <> 3 ORDER BY id"


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    sell(sites)


@pytest.fixture
def granted(sites: Directory) -> Iterator[Site]:
    """The site jfk, which may change the sales of store 3, with a snapshot of them."""
    with let_in(sites) as jfk:
        yield jfk


PUSH = [
    ("push.after_cut", 1),
    ("push.before_ship_commit", 1),
    ("push.after_ship", 1),
    ("push.before_apply", 1),
    ("push.before_apply", 2),
    ("push.after_commit", 1),
    ("push.before_mark", 1),
]


@pytest.mark.parametrize(("point", "nth"), PUSH)
def test_revoked_in_the_middle_of_a_push(
    sites: Directory,
    granted: Site,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    nth: int,
) -> None:
    """What the master has not applied stays queued, and comes once, in its order."""
    hq, others = sites["hq"], run(sites["hq"], OTHERS)
    for _ in range(3):
        run(granted, "UPDATE public.sale SET cost = cost + 1 WHERE id IN (2, 4)")
        run(granted, "UPDATE public.sale SET what = what || '+' WHERE id = 6")
    at = AtPoint(point, lambda: masters.revoke(hq, "sales", "jfk"), nth)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", at.point)
        with suppress(SnaptideError):
            deferred.push(granted, group_max_calls=1)
    assert at.reached
    for _ in range(2):
        with pytest.raises(NotGranted):
            deferred.push(granted)
    assert parked(hq) == []
    applied = run(hq, MINE)
    if (point, nth) == ("push.before_mark", 1):
        assert applied == run(granted, MINE)
    grant_sales(hq, STORE)
    assert deferred.push(granted).errors == 0
    assert run(hq, MINE) == run(granted, MINE)
    assert run(hq, MINE) == [
        *((2, "thing 2", 5), (4, "thing 4", 7), (6, "thing 6+++", 6)),
        *((8, "thing 8", 8), (10, "thing 10", 10)),
    ]
    assert queued(granted) == 0
    assert parked(hq) == []
    refresh(granted, "sale")
    assert run(hq, MINE) == run(granted, MINE)
    assert run(hq, OTHERS) == others


_REVOKED = "(sale.*granted no more|does not let this site read sale any more)"

REFRESH = [
    "refresh.after_register",
    "refresh.after_sweep",
    "refresh.after_window",
    "refresh.after_stage",
    "refresh.before_merge_commit",
    "refresh.after_merge",
    "refresh.before_advance",
]


@pytest.mark.parametrize("method", ["f", "c"])
@pytest.mark.parametrize("point", REFRESH)
def test_revoked_in_the_middle_of_a_refresh(
    sites: Directory,
    granted: Site,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    method: str,
) -> None:
    """Rows leave, but for those that are pending; the site shows nothing of later."""
    hq = sites["hq"]
    run(granted, "UPDATE public.sale SET cost = 0 WHERE id = 10")
    run(hq, "UPDATE public.sale SET what = 'read' WHERE id IN (2, 3)")

    def revoke() -> None:
        masters.revoke(hq, "sales", "jfk")
        run(hq, "UPDATE public.sale SET what = 'secret' WHERE id IN (2, 3, 4)")

    at = AtPoint(point, revoke)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", at.point)
        with pytest.raises(NotGranted, match=_REVOKED):
            refresh(granted, "sale", method=method)
    assert at.reached
    pending = [(10, "thing 10", 0)]
    assert run(granted, MINE) == pending
    for _ in range(2):
        with pytest.raises(NotGranted):
            refresh(granted, "sale", method=method)
        with pytest.raises(NotGranted):
            snapshots.refresh(granted, "sale")
    assert run(granted, MINE) == pending
    assert queued(granted) == 1
    grant_sales(hq, STORE)
    assert deferred.push(granted).errors == 0
    refresh(granted, "sale")
    assert run(granted, MINE) == run(hq, MINE)
    assert run(granted, "SELECT count(*) FROM public.sale") == [(5,)]
    # The next one goes on where that has ended.
    run(hq, "UPDATE public.sale SET what = 'later' WHERE id = 8")
    assert refresh(granted, "sale")["sale"].method == "fast"
    assert run(granted, MINE) == run(hq, MINE)


def test_other_rows_are_granted_and_a_refresh_fails_before_it_compares_all(
    sites: Directory, granted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one finds its snapshot registered, and compares all rows even so."""
    hq = sites["hq"]
    masters.revoke(hq, "sales", "jfk")
    grant_sales(hq, STORE, "4")

    def fail() -> None:
        raise SnaptideError("It breaks off.")

    at = AtPoint("refresh.after_register", fail)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", at.point)
        with pytest.raises(SnaptideError, match="breaks off"):
            refresh(granted, "sale", allow_mass_delete=True)
    refresh(granted, "sale", allow_mass_delete=True)
    shown = "SELECT * FROM public.sale ORDER BY id"
    assert run(granted, shown) == run(
        hq, shown.replace(" ORDER", " WHERE store_id = 4 ORDER")
    )
    assert refresh(granted, "sale")["sale"].method == "fast"


def test_revoked_in_the_middle_of_a_check(
    sites: Directory, granted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = moved.find

    def revoked_before(*given: Any, **named: Any) -> Any:
        masters.revoke(sites["hq"], "sales", "jfk")
        return find(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(moved, "find", revoked_before)
        with pytest.raises(NotGranted, match=r"during the check.*read sale any more"):
            snapshots.check(granted, "sale")
