"""Average: (current + new) / 2, exactly."""

from __future__ import annotations

from decimal import Decimal, Inexact, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masters.errors import WrongColumnCount
from masters.resolution import Decision, Resolution, virtuoso
from masters.resolution.computed import Average
from tests.unit.conflicts import update_conflict

WIDEST = Decimal("9" * 131072)
SMALLEST = Decimal("1e-16383")


def average(new: object, current: object) -> Resolution:
    conflict = update_conflict(
        ("price",), old=None, new={"price": new}, current={"price": current}
    )
    return Average.build({}, ["price"])(conflict)


def test_acceptance_a14_9_the_average_of_7_and_15_is_11():
    answer = average(new=15, current=7)
    assert answer.decision is Decision.SITE_WINS
    assert answer.values == {"price": 11}


def test_acceptance_virtuoso_d7_6_the_average_of_12_and_15_is_13_and_a_half():
    assert virtuoso("ave", "price") == ("average", {})
    assert average(Decimal(15), Decimal(12)).values == {"price": Decimal("13.5")}


@pytest.mark.parametrize(
    ("new", "current", "mean"),
    [
        (5, 5, 5),
        (7, 8, 8),
        (-7, -8, -8),
        (-1, 0, -1),
        (2**63 - 1, 2**63 - 1, 2**63 - 1),
        (1.0, 2.0, 1.5),
        (1.7e308, 1.7e308, 1.7e308),
        (Decimal("0.10"), Decimal("0.30"), Decimal("0.2")),
        (Decimal("0.01"), Decimal("0.02"), Decimal("0.015")),
        (WIDEST, WIDEST, WIDEST),
    ],
)
def test_the_result_has_the_type_of_the_column(new, current, mean):
    value = average(new, current).values["price"]
    assert type(value) is type(mean)
    assert value == mean


def test_the_widest_and_the_smallest_numeric_are_averaged_exactly():
    value = average(WIDEST, SMALLEST).values["price"]
    assert isinstance(value, Decimal)
    with localcontext(prec=200_000) as exact:
        exact.traps[Inexact] = True
        assert value * 2 == WIDEST + SMALLEST


@given(*[st.decimals(-(10**30), 10**30, places=12)] * 2)
def test_numeric_is_exact_and_the_sides_do_not_matter(new, current):
    value = average(new, current).values["price"]
    assert isinstance(value, Decimal)
    assert Fraction(value) == (Fraction(current) + Fraction(new)) / 2
    assert value == average(current, new).values["price"]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity"), True, "5", None],
)
def test_what_is_no_finite_number_is_undecided(value):
    assert average(value, value).decision is Decision.UNDECIDED


@pytest.mark.parametrize("columns", [[], ["stock", "price"]])
def test_the_group_is_one_column(columns):
    with pytest.raises(WrongColumnCount):
        Average.build({}, columns)
