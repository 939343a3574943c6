"""A rule decides about the column that it was made for, whatever has its name now."""

import pytest

import deferred
import snapshots
from masters import rules
from masters.errors import RulesMoved
from sites import Directory, Site
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

SWAP = (
    "ALTER TABLE public.t RENAME qty TO was",
    "ALTER TABLE public.t RENAME price TO qty",
    "ALTER TABLE public.t RENAME was TO price",
)


@pytest.fixture
def jfk(sites: Directory) -> Site:
    """A site; what it and hq add to `qty` is added up."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY, qty int, price int, a text)")
    run(hq, "INSERT INTO public.t VALUES (1, 10, 100, 'a')")
    log(hq, "t")
    rules.set_column_group(hq, "t", "stock", ["qty"])
    rules.add_update_resolution(hq, "t", "stock", "additive")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    return jfk


def conflict(hq: Site, jfk: Site) -> None:
    run(hq, "UPDATE public.t SET qty = qty + 1")
    run(jfk, "UPDATE public.t SET qty = qty + 2")


def found(hq: Site) -> list[str]:
    return [f.what for f in doctor.examine(hq) if f.subject == "rules of t"]


def test_a_rule_decides_about_no_other_column(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    assert found(hq) == []
    run(hq, *SWAP)
    refresh(jfk, "t")
    conflict(hq, jfk)
    with pytest.raises(RulesMoved, match="that one is called price"):
        deferred.push(jfk, "hq")
    assert run(hq, "SELECT qty, price FROM public.t") == [(101, 10)]
    assert len(found(hq)) == 1
    # Another rule is changed: nobody has said anything of `qty`.
    rules.compare_old_values(hq, "t", ["a"], compare=False)
    with pytest.raises(RulesMoved):
        deferred.push(jfk, "hq")
    rules.set_column_group(hq, "t", "stock", ["price"])
    assert found(hq) == []
    assert deferred.push(jfk, "hq").errors == 1


def test_it_is_said_to_be_of_the_column_of_now(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    run(hq, *SWAP)
    refresh(jfk, "t")
    conflict(hq, jfk)
    rules.set_column_group(hq, "t", "stock", ["qty"])
    assert deferred.push(jfk, "hq").errors == 0
    assert run(hq, "SELECT qty, price FROM public.t") == [(103, 10)]
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


def test_columns_get_their_names_back(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    run(hq, *SWAP)
    run(hq, *SWAP)
    conflict(hq, jfk)
    assert deferred.push(jfk, "hq").errors == 0
    assert run(hq, "SELECT qty, price FROM public.t") == [(13, 100)]


@pytest.mark.parametrize("how", ["parameter", "row version", "not compared"])
def test_whatever_names_a_column(sites: Directory, jfk: Site, how: str) -> None:
    hq = sites["hq"]
    rules.set_column_group(hq, "t", "stock", [])
    if how == "parameter":
        rules.set_column_group(hq, "t", "text", ["a", "qty"])
        rules.add_update_resolution(
            hq, "t", "text", "maximum", parameters={"column": "qty"}
        )
        rules.set_column_group(hq, "t", "text", ["a", "qty"])
    elif how == "row version":
        rules.set_row_version(hq, "t", "qty")
    else:
        rules.compare_old_values(hq, "t", ["qty"], compare=False)
    run(hq, *SWAP)
    refresh(jfk, "t")
    run(jfk, "UPDATE public.t SET a = 'mine'")
    with pytest.raises(RulesMoved, match="Column qty of t"):
        deferred.push(jfk, "hq")


def test_a_retry_does_not_use_it_either(sites: Directory, jfk: Site) -> None:
    hq = sites["hq"]
    run(hq, "ALTER TABLE public.t ADD CONSTRAINT c CHECK (a <> 'mine')")
    run(jfk, "UPDATE public.t SET a = 'mine', qty = 12")
    assert deferred.push(jfk, "hq").errors == 1
    run(hq, "ALTER TABLE public.t DROP CONSTRAINT c")
    run(hq, "ALTER TABLE public.t RENAME qty TO was")
    run(hq, "ALTER TABLE public.t RENAME price TO qty")
    [report] = deferred.retry_errors(hq)
    assert not report.applied


def test_rules_are_kept_by_a_file(sites: Directory, jfk: Site) -> None:
    """A file says again what it changes, and nothing else."""
    hq = sites["hq"]
    run(hq, *SWAP)
    book = rules.rulebook.export(hq)
    assert rules.rulebook.apply(hq, book) == []
    assert len(found(hq)) == 1
    assert rules.rulebook.apply(hq, {"tables": {}}) != []
    assert rules.rulebook.apply(hq, book) != []
    assert found(hq) == []
