"""Additive: current + (new - old), exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masters.errors import WrongColumnCount
from masters.resolution import Decision, Resolution
from masters.resolution.computed import Additive
from tests.unit.conflicts import update_conflict

# The limits of PostgreSQL's numeric.
WIDEST = Decimal("9" * 131072)
SMALLEST = Decimal("1e-16383")


def add(old: object, new: object, current: object) -> Resolution:
    method = Additive.build({}, ["stock"])
    return method(
        update_conflict(
            ("stock",),
            old={"stock": old},
            new={"stock": new},
            current={"stock": current},
        )
    )


def test_acceptance_a14_9_both_sites_end_at_twelve():
    """Old 10; site A makes it 15, site B 7: 12 at both."""
    assert add(old=10, new=15, current=7).values == {"stock": 12}
    assert add(old=10, new=7, current=15).values == {"stock": 12}


def test_acceptance_virtuoso_d7_6():
    assert add(old=10, new=15, current=12).values == {"stock": 17}


def test_the_origin_stays_so_that_no_master_adds_twice():
    assert add(10, 15, 7).decision is Decision.SITE_WINS


def test_two_sites_that_add_the_same_are_both_counted():
    assert add(old=10, new=15, current=15).values == {"stock": 20}


@pytest.mark.parametrize(
    ("old", "new", "current", "total"),
    [
        (10, 15, 7, 12),
        (2**62, 2**62 + 1, 5, 6),
        (1.5, 2.5, 4.0, 5.0),
        (Decimal("0.10"), Decimal("0.20"), Decimal("0.30"), Decimal("0.40")),
        (Decimal(0), WIDEST, Decimal(0), WIDEST),
        (Decimal(0), WIDEST, SMALLEST, Decimal("9" * 131072 + f"{SMALLEST:f}"[1:])),
    ],
)
def test_the_result_has_the_type_of_the_column(old, new, current, total):
    value = add(old, new, current).values["stock"]
    assert (type(value), str(value)) == (type(total), str(total))


@given(*[st.decimals(-(10**30), 10**30, places=12)] * 3)
def test_numeric_is_exact(old, new, current):
    total = add(old, new, current).values["stock"]
    assert isinstance(total, Decimal)
    assert Fraction(total) == Fraction(current) + Fraction(new) - Fraction(old)


@given(*[st.integers(-(2**63), 2**63 - 1)] * 3)
def test_the_order_of_two_changes_does_not_matter(start, one, other):
    there = add(old=start, new=one, current=other).values
    back = add(old=start, new=other, current=one).values
    assert there == back


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("-Infinity"),
        True,
        "5",
        [5],
    ],
)
def test_what_is_no_finite_number_is_undecided(value):
    assert add(old=value, new=value, current=value).decision is Decision.UNDECIDED


def test_a_sum_that_overflows_is_undecided():
    assert add(old=0.0, new=1e308, current=1e308).decision is Decision.UNDECIDED


@pytest.mark.parametrize("columns", [[], ["stock", "price"]])
def test_the_group_is_one_column(columns):
    with pytest.raises(WrongColumnCount) as refused:
        Additive.build({}, columns)
    assert refused.value.code == "SNP-125"
    assert refused.value.hint
