"""The steps of a gentle check, and the rests between them."""

import pytest

from snapshots.check.gently import FIRST_PAGES, LONGEST_REST, STEP, _Pace


def steady(pace: _Pace, each: float, steps: int) -> list[float]:
    """The rests after so many steps whose pages take so many seconds each."""
    return [pace.done(pace.pages, pace.pages * each) for _ in range(steps)]


def test_steps_come_to_take_as_long_as_they_should() -> None:
    pace = _Pace()
    each = STEP / 10_000
    rests = steady(pace, each, 10)
    assert pace.pages == pytest.approx(10_000, abs=2)
    assert rests[-1] == pytest.approx(STEP, rel=0.01)


def test_a_step_changes_by_a_factor_of_two_at_most() -> None:
    pace = _Pace()
    pace.done(FIRST_PAGES, 1e-9)
    assert pace.pages == 2 * FIRST_PAGES
    pace.done(pace.pages, 1000)
    assert pace.pages == FIRST_PAGES


def test_a_step_reads_a_page_at_least() -> None:
    pace = _Pace()
    for _ in range(10):
        pace.shorten()
    assert pace.pages == 1
    pace.done(1, 1000)
    assert pace.pages == 1


def test_the_rest_is_as_long_as_the_step_and_longer_while_steps_are_slower() -> None:
    pace = _Pace()
    assert pace.done(100, 0.1) == pytest.approx(0.1)
    assert pace.done(100, 0.2) == pytest.approx(0.4, rel=0.1)
    assert pace.done(100, 0.1) == pytest.approx(0.1)
    assert pace.done(100, 50) == LONGEST_REST


def test_quick_first_pages_do_not_make_all_rests_long() -> None:
    """They were in memory; the others have to be read from the disk."""
    pace = _Pace()
    steady(pace, STEP / 100_000, 5)
    rests = steady(pace, STEP / 1000, 300)
    assert rests[0] == LONGEST_REST
    assert rests[-1] == pytest.approx(STEP, rel=0.01)


def test_a_database_that_becomes_busy_gets_longer_rests_for_a_while() -> None:
    pace = _Pace()
    steady(pace, STEP / 10_000, 20)
    rests = steady(pace, 4 * STEP / 10_000, 100)
    assert all(rest > 2 * STEP for rest in rests[:10])
    assert rests == sorted(rests, reverse=True)
    # It is not busier than it has been any more.
    assert rests[-1] == pytest.approx(STEP, rel=0.01)
