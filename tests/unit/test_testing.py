"""The check for one's own routine, tried on our methods (the table of A.8)."""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from masters import resolution
from masters.analysis import convergence, testing
from masters.analysis.testing import Change, Decide, Diverged, Draw
from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, Row

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
SMALL = st.integers(0, 30)

# The same histories in every run; a failure is enough, it need not be the shortest.
MUST_HOLD = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
MUST_FAIL = settings(MUST_HOLD, max_examples=500, phases=[Phase.generate])


#: Methods in sequence, the start and the changes.
Case = tuple[list[Decide], st.SearchStrategy[Row], Change]


def method(name: str, columns: list[str], **parameters: object) -> Decide:
    return resolution.build(name, Kind.UPDATE, parameters, columns)


def stamped(draw: Draw, row: Row, site: str) -> Row:
    """What an application keeps: a clock that never goes back, who wrote last."""
    later = timedelta(seconds=draw(st.integers(1, 3)))
    moment = row["moment"]
    assert isinstance(moment, datetime)
    return {"price": draw(SMALL), "moment": moment + later, "site": site}


def moved(by: st.SearchStrategy[int]) -> Change:
    """A change that adds to a value, in rows that say who wrote them."""

    def change(draw: Draw, row: Row, site: str) -> Row:
        value = row["value"]
        assert isinstance(value, int)
        return {"value": value + draw(by), "site": site}

    return change


def stock(row: Row | None) -> int:
    value = (row or {})["stock"]
    assert isinstance(value, int)
    return value


STAMPED = st.just({"price": 1, "moment": EPOCH, "site": "hq"})
VALUED = st.just({"value": 100, "site": "hq"})
STOCK = st.just({"stock": 10})

UP, DOWN = st.integers(1, 9), st.integers(-9, -1)
BOTH_WAYS = st.integers(-9, 9)
ANY_STOCK = testing.any_values(stock=SMALL)

LATEST = method("latest_timestamp", ["price", "moment", "site"], column="moment")
EARLIEST = method("earliest_timestamp", ["price", "moment", "site"], column="moment")
PRIORITIES = {"hq": 3, "jfk": 2, "ewr": 1}
BY_SITE = method(
    "site_priority", ["price", "moment", "site"], column="site", priorities=PRIORITIES
)
RANKS = method(
    "priority_group",
    ["value", "site"],
    column="value",
    priorities={str(n): n for n in range(-500, 500)},
)


def valued(name: str, **parameters: object) -> Decide:
    return method(name, ["value", "site"], column="value", **parameters)


CONVERGING: dict[str, Case] = {
    "additive": ([method("additive", ["stock"])], STOCK, ANY_STOCK),
    "latest timestamp, equal stamps left": ([LATEST], STAMPED, stamped),
    "latest timestamp with a backup": ([LATEST, BY_SITE], STAMPED, stamped),
    "minimum that only falls": ([valued("minimum")], VALUED, moved(DOWN)),
    "maximum that only rises": ([valued("maximum")], VALUED, moved(UP)),
    "priority that only rises": ([RANKS], VALUED, moved(UP)),
}

DIVERGING: dict[str, Case] = {
    "overwrite": ([method("overwrite", ["stock"])], STOCK, ANY_STOCK),
    "discard": ([method("discard", ["stock"])], STOCK, ANY_STOCK),
    "average": ([method("average", ["stock"])], STOCK, ANY_STOCK),
    "earliest timestamp": ([EARLIEST], STAMPED, stamped),
    "minimum that rises": ([valued("minimum")], VALUED, moved(BOTH_WAYS)),
    "maximum that falls": ([valued("maximum")], VALUED, moved(BOTH_WAYS)),
    "priority that falls": ([RANKS], VALUED, moved(BOTH_WAYS)),
    "site priority": ([BY_SITE], STAMPED, stamped),
    "a tie for the site": ([valued("minimum", tie="site")], VALUED, moved(DOWN)),
    "a tie for the master": ([valued("maximum", tie="master")], VALUED, moved(UP)),
    "always": ([method("informix_always", ["stock"])], STOCK, ANY_STOCK),
    "ignore": ([method("informix_ignore", ["stock"])], STOCK, ANY_STOCK),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERGING)
def test_methods_that_converge_pass(name):
    methods, start, change = CONVERGING[name]
    testing.check(*methods, start=start, change=change, settings=MUST_HOLD)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIVERGING)
def test_methods_that_do_not_converge_fail(name):
    methods, start, change = DIVERGING[name]
    with pytest.raises(Diverged, match="end up different"):
        testing.check(*methods, start=start, change=change, settings=MUST_FAIL)


def name_of(decide: Decide) -> str:
    """As rules name a method that was built for them."""
    return str(getattr(decide, "name"))  # noqa: B009


@pytest.mark.parametrize("name", DIVERGING)
def test_what_fails_was_warned_of(name):
    """Three masters, as here: `snaptide conflicts check` had said so."""
    [decide] = DIVERGING[name][0]
    tie = {"tie": getattr(decide, "tie", None)}
    assert convergence.diverges(name_of(decide), 3, 0, tie)


@pytest.mark.parametrize("name", CONVERGING)
def test_what_passes_was_not_warned_of_or_only_outside_its_limits(name):
    decide = CONVERGING[name][0][0]
    reason = convergence.diverges(name_of(decide), 3, 0)
    assert reason is None or "unless every change" in reason


@pytest.mark.slow
@pytest.mark.parametrize("servers", [{}, {"servers": PRIORITIES}])
def test_informix_timestamp_converges_when_the_row_says_who_wrote_it(servers):
    columns = ["price", "moment", "site"]
    by = {"server_column": "site"} if servers else {}
    timestamp = method("informix_timestamp", columns, column="moment", **servers, **by)
    testing.check(timestamp, start=STAMPED, change=stamped, settings=MUST_HOLD)


@pytest.mark.slow
def test_informix_timestamp_diverges_when_the_master_stands_for_who_wrote():
    timestamp = method(
        "informix_timestamp",
        ["price", "moment", "site"],
        column="moment",
        servers=PRIORITIES,
    )
    with pytest.raises(Diverged):
        testing.check(timestamp, start=STAMPED, change=stamped, settings=MUST_FAIL)


@pytest.mark.slow
def test_of_two_masters_each_change_alone_is_settled_by_site_priority():
    """Oracle's table: one master and its snapshots, or two masters."""
    testing.check(
        BY_SITE,
        start=STAMPED,
        change=stamped,
        sites=["hq", "jfk"],
        settings=MUST_HOLD,
    )


@pytest.mark.slow
def test_two_masters_may_diverge_by_minimum_when_two_changes_cross():
    """10 -> 5 at one, 10 -> 3 -> 20 at the other: they end with 20 and with 5."""
    with pytest.raises(Diverged, match="convergent"):
        testing.check(
            valued("minimum"),
            start=VALUED,
            change=moved(BOTH_WAYS),
            sites=["hq", "jfk"],
            settings=MUST_FAIL,
        )


def test_the_failure_names_the_property_and_tells_the_shortest_history():
    with pytest.raises(Diverged) as failed:
        testing.check(method("overwrite", ["stock"]), start=STOCK, change=ANY_STOCK)
    story = str(failed.value).splitlines()
    assert story[0].startswith(
        "The methods are not commutative, the masters end up different"
    )
    assert len(story) == 6
    assert "site_wins" in story[-1]


def test_a_routine_that_adds_what_the_site_added_converges():
    def adds(conflict: Conflict) -> Resolution:
        old, new, current = (
            stock(row) for row in (conflict.old, conflict.new, conflict.current)
        )
        total = current + new - old
        return Resolution(decision=Decision.SITE_WINS, values={"stock": total})

    testing.check(adds, start=STOCK, change=ANY_STOCK, settings=MUST_HOLD)


def test_a_routine_that_answers_by_chance_fails():
    def chance(conflict: Conflict) -> Resolution:
        return Resolution(
            decision=random.choice([Decision.SITE_WINS, Decision.MASTER_WINS])
        )

    with pytest.raises(Diverged, match=r"two answers|end up different"):
        testing.check(chance, start=STOCK, change=ANY_STOCK, settings=MUST_FAIL)


def test_a_routine_that_returns_rubbish_fails():
    with pytest.raises(Diverged, match="NoneType"):
        testing.check(
            lambda _: None,  # type: ignore[arg-type, return-value]
            start=STOCK,
            change=ANY_STOCK,
            settings=MUST_FAIL,
        )


def test_row_that_a_master_makes_its_own_reaches_no_other_master():
    def raises_it(conflict: Conflict) -> Resolution:
        more = stock(conflict.current) + 1
        return Resolution(
            decision=Decision.SITE_WINS_ORIGIN_CHANGED, values={"stock": more}
        )

    with pytest.raises(Diverged, match="end up different"):
        testing.check(raises_it, start=STOCK, change=ANY_STOCK, settings=MUST_FAIL)


def test_a_routine_that_never_decides_has_proved_nothing():
    def never(conflict: Conflict) -> Resolution:
        return Resolution(decision=Decision.UNDECIDED, reason="ask me tomorrow")

    with pytest.raises(Diverged, match="No conflict was ever decided"):
        testing.check(never, start=STOCK, change=ANY_STOCK, settings=MUST_HOLD)


def test_without_hypothesis_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match="pip install hypothesis"):
        testing.check(LATEST, start=STAMPED, change=stamped)
