"""Policies for leaving rows, where a grant takes rows away from a site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
import pytest

import deferred
import masters
import snapshots
from deferred.error_catalog import WITHDRAWN
from sites import Directory, Site
from sites.errors import NotGranted
from snapshots.errors import MassDelete, MassLeave
from tests.fix_worlds import prepared_once
from tests.granted import STORE, every, grant_sales, ids, let_in, rent, sell
from tests.linked_table import parked, queued, run
from tests.stories import refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

POLICIES = list(snapshots.Leaving)


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    sell(sites)


@pytest.fixture
def granted(sites: Directory) -> Iterator[Site]:
    """The site jfk, with a snapshot of the sales 2, 4, 6, 8 and 10."""
    with let_in(sites) as jfk:
        yield jfk


#: Sale 2 leaves with a change of the site, sale 4 leaves, sale 6 is deleted. The site
#: adds sale 20.
MOVED = (
    "UPDATE public.sale SET store_id = 4 WHERE id IN (2, 4)",
    "DELETE FROM public.sale WHERE id = 6",
)


def _work_at(jfk: Site) -> None:
    run(jfk, "UPDATE public.sale SET what = 'mine' WHERE id = 2")
    run(jfk, "INSERT INTO public.sale VALUES (20, 3, 'new', 7)")


def _kept(jfk: Site, name: str = "sale") -> list[int]:
    return sorted(int(one.key[0]) for one in snapshots.list_kept(jfk, name))


def _withdrawn(jfk: Site) -> list[str]:
    found = [deferred.show_error(jfk, one.id) for one in deferred.list_errors(jfk)]
    assert {one.reason for one in found} <= {WITHDRAWN}
    calls = [call for one in found for call in one.calls]
    return sorted((call.old or call.new or {})["id"] or "" for call in calls)


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_that_move_out_of_a_grant(
    sites: Directory, granted: Site, policy: str
) -> None:
    hq = sites["hq"]
    snapshots.alter_leaving(granted, "sale", policy)
    _work_at(granted)
    run(hq, *MOVED)
    done = refresh(granted, "sale", allow_mass_delete=True)["sale"]
    assert done.method == "fast"
    stays = policy != "park"
    assert ids(granted, "sale") == [*([2] if stays else []), 8, 10, 20]
    assert (done.left, done.staying) == ((1, {"pending": 1}) if stays else (2, {}))
    assert _kept(granted) == ([4] if policy == "keep" else [])
    assert _withdrawn(granted) == ([] if stays else ["2"])
    _refuses_frozen(granted, policy)
    # The answer is a conflict, and so the row goes; the new sale is one of the grant.
    settle(granted)
    assert ids(granted, "sale") == [8, 10, 20]
    assert len(parked(hq)) == (1 if stays else 0)
    assert _kept(granted) == ([2, 4] if policy == "keep" else [])
    run(hq, "UPDATE public.sale SET store_id = 3 WHERE id IN (2, 4)")
    for where in (granted, hq):
        assert all(one.applied for one in deferred.retry_errors(where))
    settle(granted)
    assert _kept(granted) == []
    assert run(hq, "SELECT what FROM public.sale WHERE id = 2") == [("mine",)]
    assert run(granted, "SELECT what FROM public.sale WHERE id = 2") == [("mine",)]
    assert queued(granted) == 0


def _refuses_frozen(jfk: Site, policy: str) -> None:
    """What users have added stays theirs, though the master does not show it."""
    with user(jfk) as one:
        one.execute("UPDATE public.sale SET cost = 8 WHERE id = 20")
        one.rollback()
        if policy == "freeze":
            with pytest.raises(psycopg.Error, match="Row 2 of sale is frozen"):
                one.execute("UPDATE public.sale SET cost = 8 WHERE id = 2")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", ["granted again", "another condition"])
def test_other_rows_are_granted(
    sites: Directory, granted: Site, policy: str, way: str
) -> None:
    hq = sites["hq"]
    snapshots.alter_leaving(granted, "sale", policy)
    _work_at(granted)
    if way == "granted again":
        grant_sales(hq, STORE, "4")
    else:
        run(hq, "UPDATE public.sale SET store_id = id WHERE id IN (2, 4)")
        where = {"sale": "id = :store"}
        masters.alter_publication(hq, "sales", ["sale"], where=where)
    theirs = ids(granted, "sale")
    done = refresh(granted, "sale", allow_mass_delete=True)["sale"]
    assert done.method == "complete"
    stays = policy != "park"
    shown = [1, 3, 5, 7, 9] if way == "granted again" else [3]
    assert ids(granted, "sale") == sorted([*shown, *([2] if stays else []), 20])
    assert done.staying == ({"pending": 1} if stays else {})
    went = [one for one in theirs if one not in (2, 20)]
    assert _kept(granted) == (went if policy == "keep" else [])
    assert _withdrawn(granted) == ([] if stays else ["2"])
    _refuses_frozen(granted, policy)
    assert deferred.push(granted).errors == (2 if stays else 1)
    settle(granted)
    assert ids(granted, "sale") == shown
    assert _kept(granted) == ([2, *went] if policy == "keep" else [])


@pytest.mark.parametrize("pushes", [False, True], ids=["refreshed", "pushed first"])
@pytest.mark.parametrize("policy", POLICIES)
def test_rows_leave_at_the_contact_that_is_refused(
    sites: Directory, granted: Site, policy: str, pushes: bool
) -> None:
    """What the master has not answered waits, or is withdrawn; nothing goes twice."""
    hq = sites["hq"]
    snapshots.alter_leaving(granted, "sale", policy)
    run(granted, "UPDATE public.sale SET cost = 0 WHERE id = 10")
    # What was answered, but not refreshed since, is not pending.
    deferred.push(granted)
    _work_at(granted)
    masters.revoke(hq, "sales", "jfk")
    stays = policy != "park"
    went = [4, 6, 8, 10]
    says = "4 rows left; 2 stay: 2 pending" if stays else "6 rows left; 2 transactions"
    with pytest.raises(NotGranted, match=says):
        snapshots.refresh(granted, "sale", push_deferred_rpc=pushes)
    for _ in range(2):
        with pytest.raises(NotGranted):
            snapshots.refresh(granted, "sale", push_deferred_rpc=pushes)
    assert ids(granted, "sale") == ([2, 20] if stays else [])
    held = 'SELECT k1, count(*) FROM snaptide."extra$_sale" GROUP BY 1 ORDER BY 1'
    assert run(granted, held) == ([(2, 1), (20, 1)] if stays else [])
    assert _kept(granted) == (went if policy == "keep" else [])
    assert _withdrawn(granted) == ([] if stays else ["2", "20"])
    if policy == "freeze":
        for row in (2, 20):
            with pytest.raises(Exception, match=f"Row {row} of sale is frozen"):
                run(granted, f"DELETE FROM public.sale WHERE id = {row}")
    grant_sales(hq, STORE)
    settle(granted)
    assert all(one.applied for one in deferred.retry_errors(granted))
    settle(granted)
    assert ids(granted, "sale") == [2, 4, 6, 8, 10, 20]
    assert _kept(granted) == []
    mine = "SELECT id, what, cost FROM public.sale WHERE id IN (2, 10) ORDER BY id"
    assert run(granted, mine) == run(hq, mine)
    assert run(hq, mine) == [(2, "mine", 2), (10, "thing 10", 0)]
    run(granted, "UPDATE public.sale SET what = 'free'")
    settle(granted)
    assert (parked(hq), queued(granted)) == ([], 0)


def test_rows_come_back_with_a_right_that_is_given_back(
    sites: Directory, granted: Site
) -> None:
    """By GRANT itself, so that the master still has the site's position."""
    hq = sites["hq"]
    run(hq, f"REVOKE ALL ON public.sale FROM {STORE}")
    with pytest.raises(NotGranted, match="5 rows left"):
        refresh(granted, "sale")
    assert ids(granted, "sale") == []
    run(hq, f"GRANT SELECT, INSERT, UPDATE, DELETE ON public.sale TO {STORE}")
    refresh(granted, "sale")
    assert ids(granted, "sale") == [2, 4, 6, 8, 10]


def test_many_rows_leave_only_if_that_is_allowed(
    sites: Directory, granted: Site
) -> None:
    many = (
        "INSERT INTO public.sale SELECT i, 3, 'm', 1 FROM generate_series(100, 199) i"
    )
    run(sites["hq"], many)
    refresh(granted, "sale")
    masters.revoke(sites["hq"], "sales", "jfk")
    with pytest.raises(NotGranted, match=r"who that is\. All rows of sale would leave"):
        refresh(granted, "sale")
    assert len(ids(granted, "sale")) == 105
    with user(granted) as someone:
        someone.execute("SELECT FROM public.sale WHERE id = 2 FOR UPDATE")
        with pytest.raises(NotGranted, match="104 rows left; 1 stays: 1 locked"):
            refresh(granted, "sale", allow_mass_delete=True)
    with pytest.raises(NotGranted, match="1 row left"):
        refresh(granted, "sale", allow_mass_delete=True)
    assert ids(granted, "sale") == []


def test_rows_stay_where_no_login_of_a_site_is_refused(
    sites: Directory, granted: Site
) -> None:
    """A wrong URL is no revoke."""
    hq = sites["hq"]
    masters.revoke(hq, "sales", "jfk")
    run(hq, f"REVOKE snaptide_site FROM {STORE}")
    with pytest.raises(NotGranted):
        refresh(granted, "sale", allow_mass_delete=True)
    assert ids(granted, "sale") == [2, 4, 6, 8, 10]
    run(
        hq,
        f"GRANT snaptide_site TO {STORE}",
        f"REVOKE ALL ON SCHEMA public FROM {STORE}",
    )
    with pytest.raises(NotGranted):
        refresh(granted, "sale", allow_mass_delete=True)
    assert ids(granted, "sale") == [2, 4, 6, 8, 10]


def test_a_mass_that_leaves_a_grant_asks_first(sites: Directory, granted: Site) -> None:
    hq = sites["hq"]
    run(
        hq,
        "INSERT INTO public.sale SELECT i, 3, 'many', 1"
        " FROM generate_series(100, 199) i",
    )
    refresh(granted, "sale")
    grant_sales(hq, STORE, "4")
    with pytest.raises(MassLeave, match="105 of 105 rows of sale would leave it"):
        refresh(granted, "sale")
    grant_sales(hq, STORE, "3")
    refresh(granted, "sale")
    run(hq, "DELETE FROM public.sale WHERE id >= 100")
    with pytest.raises(MassDelete, match="would delete 100 of 105 rows of sale") as it:
        refresh(granted, "sale")
    assert type(it.value) is MassDelete


@prepared_once("hq", "jfk", needs="spark")
def shops(sites: Directory) -> None:
    rent(sites)


@pytest.fixture
def shop(shops: Directory) -> Iterator[Site]:
    """The site jfk, which may change what belongs to customers 2 and 4 of store 3."""
    with let_in(shops) as jfk:
        yield jfk


ALL: Sequence[str] = ("customer", "rental", "payment")


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_leave_with_a_parent(shops: Directory, shop: Site, policy: str) -> None:
    hq = shops["hq"]
    for name in ALL:
        snapshots.alter_leaving(shop, name, policy)
    run(shop, "UPDATE public.payment SET amount = 7 WHERE id = 211")
    run(shop, "INSERT INTO public.rental VALUES (23, 2, 'mine')")
    run(hq, "UPDATE public.customer SET store_id = 4 WHERE id = 2")
    run(hq, "DELETE FROM public.payment WHERE id = 411")
    done = refresh(shop, "shop", allow_mass_delete=True)
    if policy == "park":
        assert every(shop) == [[4], [41], []]
        assert (done["rental"].withdrawn, done["payment"].withdrawn) == (1, 1)
        assert queued(shop) == 0
    else:
        assert every(shop) == [[2, 4], [21, 23, 41], [211]]
        assert queued(shop) == 2
    kept = {name: _kept(shop, name) for name in ALL}
    went = {"customer": [], "rental": [22], "payment": [221]}
    assert kept == (went if policy == "keep" else {name: [] for name in ALL})
    settle(shop)
    assert every(shop) == [[4], [41], []]
    if policy == "keep":
        assert {name: _kept(shop, name) for name in ALL} == {
            "customer": [2],
            "rental": [21, 22],
            "payment": [211, 221],
        }
    run(hq, "UPDATE public.customer SET store_id = 3 WHERE id = 2")
    for where in (shop, hq):
        assert all(one.applied for one in deferred.retry_errors(where))
    settle(shop)
    assert every(shop) == [[2, 4], [21, 22, 23, 41], [211, 221]]
    assert run(hq, "SELECT amount FROM public.payment WHERE id = 211") == [(7,)]
    assert [_kept(shop, name) for name in ALL] == [[], [], []]


def test_children_leave_with_the_parents_that_are_revoked(
    shops: Directory, shop: Site
) -> None:
    """The user's payment holds its rental, and that its customer."""
    run(shop, "UPDATE public.payment SET amount = 7 WHERE id = 211")
    masters.revoke(shops["hq"], "shop", "jfk")
    with pytest.raises(NotGranted, match="rental: 2 rows left; 1 stays"):
        refresh(shop, "shop")
    assert every(shop) == [[2], [21], [211]]
    assert queued(shop) == 1
