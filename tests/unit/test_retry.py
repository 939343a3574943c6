"""Trying again what failed, and waiting for a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tenacity import stop_after_attempt, wait_none

from sites import retry


class Busy(Exception):
    """It passes."""


def failing(outcomes: Iterator[Exception | None]) -> Callable[[], str]:
    """Work that fails with one error after the other, and succeeds where None is."""

    def work() -> str:
        error = next(outcomes)
        if error is not None:
            raise error
        return "done"

    return work


def test_work_is_tried_again_after_its_errors() -> None:
    between: list[str] = []
    attempts = retry.on(
        Busy, stop=stop_after_attempt(3), between=lambda: between.append("rollback")
    )
    assert attempts(failing(iter([Busy(), Busy(), None]))) == "done"
    assert between == ["rollback"] * 2


def test_the_last_attempt_raises_its_error() -> None:
    between: list[str] = []
    last = Busy("the last one")
    attempts = retry.on(
        Busy, stop=stop_after_attempt(2), between=lambda: between.append("rollback")
    )
    with pytest.raises(Busy) as found:
        attempts(failing(iter([Busy(), last, None])))
    assert found.value is last
    assert between == ["rollback"]


@pytest.mark.parametrize("error", [ValueError(), Busy("for ever")])
def test_other_errors_are_raised_at_once(error: Exception) -> None:
    attempts = retry.on(
        Busy, stop=stop_after_attempt(3), when=lambda e: e.args != ("for ever",)
    )
    with pytest.raises(type(error)):
        attempts(failing(iter([error, None])))


def test_attempts_are_counted_again_after_progress() -> None:
    done = 5
    made = 0

    def work() -> None:
        nonlocal done, made
        made += 1
        if made in (2, 3):
            done += 1
        raise Busy

    attempts = retry.on(Busy, stop=stop_after_attempt(2), progress=lambda: done)
    with pytest.raises(Busy):
        attempts(work)
    # The third is the first one again.
    assert made == 4


def test_a_question_is_repeated_until_its_answer_is_true() -> None:
    answers = iter(["", "", "here", "too late"])
    assert retry.until(lambda: next(answers), wait=wait_none()) == "here"


def test_the_last_answer_is_returned_when_it_is_time_to_stop() -> None:
    answers = iter([0, None, "", "too late"])
    found = retry.until(
        lambda: next(answers), wait=wait_none(), stop=stop_after_attempt(3)
    )
    assert found == ""


def test_what_a_question_raises_is_raised_at_once() -> None:
    work = failing(iter([Busy(), None]))
    with pytest.raises(Busy):
        retry.until(work, wait=wait_none())
