"""Other rows are granted to a site while it refreshes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from sqlalchemy.exc import OperationalError

import snapshots
from sites import Directory, Site, faults
from sites.faults import InjectedFault
from tests.at_point import AtPoint
from tests.fix_worlds import prepared_once
from tests.granted import STORE, grant_sales, ids, let_in, sell
from tests.let_go import END_LOCKS
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")

#: The sales of store 4.
OTHERS = [1, 3, 5, 7, 9]


@prepared_once("hq", "jfk")
def sold(sites: Directory) -> None:
    """Sales of two stores, of which jfk has those of store 3."""
    sell(sites)


@pytest.fixture
def granted(sold: Directory) -> Iterator[Site]:
    with let_in(sold) as jfk:
        yield jfk


def _refresh(site: Site) -> None:
    snapshots.refresh(site, "sale", allow_mass_delete=True)


def _refresh_meanwhile(
    site: Site, monkeypatch: pytest.MonkeyPatch, point: str, action: Callable[[], None]
) -> None:
    at = AtPoint(point, action)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", at.point)
        try:
            _refresh(site)
        finally:
            assert at.reached


@pytest.mark.parametrize("changed", [False, True])
def test_a_refresh_shows_what_is_granted_at_its_moment(
    sold: Directory, granted: Site, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    if changed:
        run(sold["hq"], "UPDATE sale SET cost = 7 WHERE id = 2")
    _refresh_meanwhile(
        granted,
        monkeypatch,
        "refresh.after_register",
        lambda: grant_sales(sold["hq"], STORE, "4"),
    )
    assert ids(granted, "sale") == OTHERS
    _refresh(granted)
    assert ids(granted, "sale") == OTHERS


def test_a_refresh_that_lost_its_lock_leaves_no_rows_of_the_grant_before(
    sold: Directory, granted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one finds the new grant, and is killed before it has compared rows."""
    run(sold["hq"], "UPDATE sale SET cost = 7 WHERE id = 2")

    def killed(name: str) -> None:
        if name == "refresh.after_register":
            raise InjectedFault(name)

    def overtaken() -> None:
        run(sold["jfk"], END_LOCKS)
        grant_sales(sold["hq"], STORE, "4")
        with monkeypatch.context() as patch:
            patch.setattr(faults, "point", killed)
            with pytest.raises(InjectedFault):
                _refresh(granted)

    # Its next turn would use the session that was ended.
    with suppress(OperationalError):
        _refresh_meanwhile(granted, monkeypatch, "refresh.after_stage", overtaken)
    _refresh(granted)
    assert ids(granted, "sale") == OTHERS
