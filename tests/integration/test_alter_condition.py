"""Other rows for a snapshot that is in use: view, grants and queue stay."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from sqlalchemy import Connection

import snapshots
from sites import Directory, Site
from snapshots.definitions import refresh_group
from snapshots.definitions.errors import NeedsParent, SnapshotRefused
from snapshots.errors import RefreshRunning
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_followed_parents import make_shop
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

FOREIGN_KEYS = (
    "SELECT conrelid::regclass::text FROM pg_constraint"
    " WHERE contype = 'f' AND conrelid::regclass::text LIKE '%snap$%' ORDER BY 1"
)

FROZEN = (
    "SELECT FROM pg_trigger WHERE tgrelid = 'snap$_film'::regclass"
    " AND tgfoid::regproc::text LIKE '%frozen%'"
)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_shop(sites)
    run(
        sites["jfk"],
        "CREATE VIEW public.names AS SELECT name FROM public.customer",
        "GRANT SELECT ON public.customer TO PUBLIC",
    )


def test_rows_enter_and_leave_with_the_next_refresh(hq, jfk):
    with user(jfk) as one:
        one.execute("UPDATE public.customer SET name = 'mine' WHERE id = 1")
        one.commit()
    altered = snapshots.alter_condition(jfk, "customer", where="store_id IN (0, 2)")
    assert [one.name for one in altered] == ["customer", "rental", "payment"]
    assert altered[0].condition == "(store_id = ANY (ARRAY[0, 2]))"
    assert "ARRAY[0, 2]" in str(altered[2].condition)
    assert altered[0].undelivered_calls == 1
    assert run(jfk, "SELECT count(*) FROM public.customer") == [(0,)]
    done = refresh(jfk, "shop", allow_mass_delete=True)
    assert {one.method for one in done.values()} == {"complete"}
    assert (done["customer"].inserted, done["customer"].held_back) == (6, 1)
    settle(jfk)
    assert run(hq, "SELECT name FROM public.customer WHERE id = 1") == [("mine",)]
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT count(*) FROM public.names") == [(6,)]
    assert run(jfk, FOREIGN_KEYS) == [('"snap$_payment"',), ('"snap$_rental"',)]
    with user(jfk) as one, pytest.raises(Exception, match="check option"):
        one.execute("INSERT INTO public.rental VALUES (100, 1, 'k')")


def test_other_parents_are_registered_before_the_next_fast_refresh(hq, jfk):
    snapshots.alter_condition(jfk, "rental", where="kind = 'k'")
    assert refresh(jfk, "shop")["rental"].method == "complete"
    assert run(hq, PARENTS)[2] == ("rental", [])
    snapshots.alter_condition(jfk, "rental", follow=["customer"])
    assert refresh(jfk, "shop", allow_mass_delete=True)["rental"].method == "complete"
    assert run(hq, PARENTS) == [
        ("customer", []),
        ("payment", ["rental", "customer"]),
        ("rental", ["customer"]),
    ]
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    assert refresh(jfk, "shop")["rental"].method == "fast"
    assert_equal_to_master(jfk)


PARENTS = "SELECT snapshot, parents FROM snaptide.registered_snapshot ORDER BY 1"


def test_all_rows(jfk):
    assert snapshots.alter_condition(jfk, "rental")[0].condition is None
    assert run(jfk, FOREIGN_KEYS) == [('"snap$_payment"',)]
    snapshots.alter_condition(jfk, "customer")
    refresh(jfk, "shop")
    assert run(jfk, "SELECT count(*) FROM public.rental") == [(36,)]
    assert_equal_to_master(jfk)
    assert run(jfk, FOREIGN_KEYS) == [('"snap$_payment"',), ('"snap$_rental"',)]


def test_a_condition_that_would_hide_rows_of_others_is_refused(jfk):
    other = "customer_id IN (SELECT id FROM customer WHERE store_id = 1 AND name > 'a')"
    made: dict[str, Any] = {"master": "hq", "group": "shop", "updatable": True}
    snapshots.create(jfk, "some", table="rental", where=other, **made)
    with pytest.raises(NeedsParent, match="condition of some"):
        snapshots.alter_condition(jfk, "customer", where="store_id = 2")
    assert snapshots.describe_snapshot(jfk, "customer").condition == "(store_id = 1)"


def test_what_follows_two_that_change_goes_on_following_both(hq, jfk):
    run(
        hq,
        "CREATE TABLE public.note (id int PRIMARY KEY,"
        " customer_id int REFERENCES public.customer,"
        " rental_id int REFERENCES public.rental)",
        "INSERT INTO public.note SELECT id, customer_id, id FROM public.rental",
    )
    log(hq, "note")
    snapshots.create(
        jfk, "note", master="hq", group="shop", follow=["customer", "rental"]
    )
    snapshots.refresh(jfk, "shop")
    snapshots.alter_condition(jfk, "customer", where="store_id = 2")
    refresh(jfk, "shop", allow_mass_delete=True)
    assert run(jfk, "SELECT count(*) FROM public.note") == [(12,)]
    assert_equal_to_master(jfk)
    assert len(run(jfk, FOREIGN_KEYS)) == 4


def test_somebody_alters_it_or_loads_it_just_before(hq, jfk, monkeypatch):
    alone = refresh_group.exclusively

    def after(first: Callable[[], object]) -> None:
        def exclusively(site: Site, name: str) -> AbstractContextManager[Connection]:
            monkeypatch.setattr(refresh_group, "exclusively", alone)
            first()
            return alone(site, name)

        monkeypatch.setattr(refresh_group, "exclusively", exclusively)

    after(lambda: snapshots.alter_condition(jfk, "customer", where="store_id = 2"))
    altered = snapshots.alter_condition(jfk, "customer", where="store_id = 0")
    assert [one.name for one in altered] == ["customer", "rental", "payment"]
    run(hq, "CREATE TABLE public.film (id int PRIMARY KEY)")
    log(hq, "film")
    snapshots.create(jfk, "film", master="hq", updatable=True)
    after(lambda: snapshots.refresh(jfk, "film"))
    snapshots.alter_leaving(jfk, "film", "freeze")
    assert len(run(jfk, FROZEN)) > 0


def test_what_is_refused_changes_nothing(jfk):
    with pytest.raises(NeedsParent):
        snapshots.alter_condition(
            jfk,
            "customer",
            where="EXISTS (SELECT FROM payment p WHERE p.id = customer.id)",
        )
    with refresh_group.exclusively(jfk, "shop"), pytest.raises(RefreshRunning):
        snapshots.alter_condition(jfk, "customer")
    assert snapshots.describe_snapshot(jfk, "customer").condition == "(store_id = 1)"
    assert refresh(jfk, "shop")["customer"].method == "fast"


def test_snapshots_of_one_group_change_together_and_others_not(hq, jfk):
    made: dict[str, Any] = {"master": "hq", "group": "other", "updatable": False}
    snapshots.create(jfk, "alone", table="customer", **made)
    wanted = {
        "customer": snapshots.Condition(where="store_id = 2"),
        "alone": snapshots.Condition(where="store_id = 2"),
    }
    with pytest.raises(SnapshotRefused, match="other, shop"):
        snapshots.alter_conditions(jfk, wanted)
    assert snapshots.describe_snapshot(jfk, "customer").condition == "(store_id = 1)"
    wanted["payment"] = snapshots.Condition(follow=["rental"], where="id > 0")
    del wanted["alone"]
    altered = snapshots.alter_conditions(jfk, wanted)
    assert [one.name for one in altered] == ["customer", "payment", "rental"]
    assert "store_id = 2" in str(altered[1].condition)
    refresh(jfk, "other")
    refresh(jfk, "shop", allow_mass_delete=True)
    assert_equal_to_master(jfk)
