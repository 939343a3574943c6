"""No change is lost, whatever the policy for rows that leave, and whenever they do.

Cells: a policy, what a user does to a row or below it, and how far the change has come
when the row leaves. All cells of a policy are played in one world: a parent for each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import deferred
import snapshots
from sites import Directory, faults
from sites.faults import InjectedFault
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, column_groups, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

#: The row that leaves is one of `c`; h is the table of its grandchildren.
TABLES = """
CREATE TABLE public.p (id int PRIMARY KEY, here bool NOT NULL);
CREATE TABLE public.c (id int PRIMARY KEY, up int REFERENCES public.p, v text);
CREATE TABLE public.g (id int PRIMARY KEY, up int REFERENCES public.c, v text);
CREATE TABLE public.h (id int PRIMARY KEY, up int REFERENCES public.g, v text);
CREATE INDEX ON public.c (up); CREATE INDEX ON public.g (up);
CREATE INDEX ON public.h (up);
INSERT INTO public.p SELECT n, true FROM generate_series(1, 40) n;
INSERT INTO public.c SELECT n, n, 'c' FROM generate_series(1, 40) n;
INSERT INTO public.g SELECT n, n, 'g' FROM generate_series(1, 40) n;
"""

#: What a user does, and what somebody did at the master that it is in conflict with.
DEEDS = {
    "edit": (
        "UPDATE public.c SET v = '{v}' WHERE id = {n}",
        "UPDATE public.c SET v = 'theirs' WHERE id = {n}",
    ),
    "insert": (
        "INSERT INTO public.c VALUES (100 + {n}, {n}, '{v}')",
        "INSERT INTO public.c VALUES (100 + {n}, {n}, 'theirs')",
    ),
    "delete": (
        "DELETE FROM public.c WHERE id = {n}",
        "UPDATE public.c SET v = 'theirs' WHERE id = {n}",
    ),
    "child": (
        "INSERT INTO public.g VALUES (100 + {n}, {n}, '{v}')",
        "INSERT INTO public.g VALUES (100 + {n}, {n}, 'theirs')",
    ),
    "grandchild": (
        "INSERT INTO public.h VALUES (100 + {n}, {n}, '{v}')",
        "INSERT INTO public.h VALUES (100 + {n}, {n}, 'theirs')",
    ),
}
STATES = ("before push", "unanswered", "parked")


@dataclass(frozen=True)
class Cell:
    deed: str
    state: str
    n: int

    @property
    def token(self) -> str:
        """What nobody else writes; a delete is known by its row."""
        return f"{self.deed} {self.state}"

    def sql(self, which: int) -> str:
        return DEEDS[self.deed][which].format(n=self.n, v=self.token)


CELLS = [
    Cell(deed, state, 1 + n * len(DEEDS) + m)
    for n, state in enumerate(STATES)
    for m, deed in enumerate(DEEDS)
]


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, TABLES)
    log(hq, "p", "c", "g", "h")
    # A deleted row has neither children nor, then, grandchildren.
    deletes = ", ".join(str(one.n) for one in CELLS if one.deed == "delete")
    run(hq, f"DELETE FROM public.g WHERE id IN ({deletes})")
    column_groups(hq, "c", {"v": "", "up": ""})
    made: dict[str, Any] = {"master": "hq", "group": "all", "updatable": True}
    snapshots.create(jfk, "p", where="here", **made)
    for child, parent in ("cp", "gc", "hg"):
        snapshots.create(jfk, child, follow=[parent], **made)
    snapshots.refresh(jfk, "all")


def _of(state: str) -> Iterator[Cell]:
    return (one for one in CELLS if one.state == state)


def _come_so_far(hq, jfk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring all cells to their states, and then let all rows leave."""
    for one in _of("parked"):
        run(hq, one.sql(1))
        run(jfk, one.sql(0))
    assert deferred.push(jfk).errors == len(DEEDS)
    for one in _of("unanswered"):
        run(jfk, one.sql(0))

    def cut(name: str) -> None:
        if name == "push.after_cut":
            raise InjectedFault(name)

    with monkeypatch.context() as patched:
        patched.setattr(faults, "point", cut)
        with pytest.raises(InjectedFault):
            deferred.push(jfk)
    for one in _of("before push"):
        run(jfk, one.sql(0))
    every = ", ".join(str(one.n) for one in CELLS)
    run(hq, f"UPDATE public.p SET here = false WHERE id IN ({every})")


def _is_here(site, one: Cell) -> bool:
    """Whether the row of `c` is there that a user changed, or put something below."""
    number = 100 + one.n if one.deed == "insert" else one.n
    return bool(run(site, f"SELECT FROM public.c WHERE id = {number}"))


def _applied(hq, one: Cell) -> bool:
    if one.deed == "delete":
        return not _is_here(hq, one)
    table = {"child": "g", "grandchild": "h"}.get(one.deed, "c")
    found = f"SELECT FROM public.{table} WHERE v = '{one.token}'"
    return bool(run(hq, found))


def _set_aside(site, one: Cell) -> bool:
    """Whether it stands in the error queue of a site."""
    number = one.n if one.deed in ("edit", "delete") else 100 + one.n
    table = {"child": "g", "grandchild": "h"}.get(one.deed, "c")
    key = f"COALESCE(old_values, new_values) ->> 'id' = '{number}'"
    query = f"SELECT FROM snaptide.error_call WHERE target_table = '{table}' AND {key}"
    return bool(run(site, query))


def _stays(policy: str, one: Cell) -> bool:
    if one.deed == "delete" or one.state == "parked":
        return False
    return policy != "park" or one.state == "unanswered"


@pytest.mark.parametrize("policy", list(snapshots.Leaving))
def test_no_change_is_lost(hq, jfk, policy, monkeypatch):
    for name in "pcgh":
        snapshots.alter_leaving(jfk, name, policy)
    _come_so_far(hq, jfk, monkeypatch)
    done = refresh(jfk, "all", allow_mass_delete=True)
    stay = {one.token for one in CELLS if _is_here(jfk, one)}
    assert stay == {one.token for one in CELLS if _stays(policy, one)}
    # A new row is one that leaves only with park: below a row that does.
    leave = {one.token for one in CELLS if policy == "park" or one.deed != "insert"}
    assert sum(done["c"].staying.values()) == len(stay & leave)
    edited = next(one for one in _of("unanswered") if one.deed == "edit")
    if policy == "freeze":
        with pytest.raises(Exception, match="is frozen"):
            run(jfk, f"UPDATE public.c SET v = 'more' WHERE id = {edited.n}")
    set_aside = {one.token for one in CELLS if _set_aside(jfk, one)}
    wanted = {one.token for one in _of("before push") if one.deed != "delete"}
    assert set_aside == (wanted if policy == "park" else set())
    settle(jfk)
    assert_equal_to_master(jfk)
    for one in CELLS:
        places = [_applied(hq, one), _set_aside(hq, one), _set_aside(jfk, one)]
        assert sum(places) == 1, (one, places)
    kept = {one.key for one in snapshots.list_kept(jfk, "c")}
    kept_now = {(str(one.n),) for one in CELLS if one.deed != "delete"}
    assert (kept & kept_now == kept_now) if policy == "keep" else not kept
    assert all(one.applied for one in deferred.retry_errors(jfk))
    settle(jfk)
    assert_equal_to_master(jfk)
    assert all(_applied(hq, one) for one in CELLS if one.state != "parked")
