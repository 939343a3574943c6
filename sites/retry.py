"""Trying again what failed, and waiting for a condition, with tenacity's strategies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    retry_if_result,
    stop_never,
    wait_none,
)
from tenacity.stop import stop_base
from tenacity.wait import wait_base

Answer = TypeVar("Answer")


def on(
    *errors: type[Exception],
    stop: stop_base,
    wait: wait_base | None = None,
    when: Callable[[Any], bool] = lambda _error: True,
    progress: Callable[[], int] = lambda: 0,
    between: Callable[[], None] = lambda: None,
) -> Retrying:
    """Attempts at some work, which is tried again after these errors.

    Other errors are raised at once, and these by the last attempt.

    Parameters:
        stop: which attempt is the last one.
        wait: the pause before each new attempt; none by default.
        when: whether one of the errors may be gone at the next attempt.
        progress: how much of the work is done. After an attempt that did some of it,
            attempts are counted from the first one again.
        between: called after a failed attempt, before the pause.
    """
    done = progress()

    def count_again_after_progress(state: RetryCallState) -> None:
        nonlocal done
        if progress() > done:
            done, state.attempt_number = progress(), 1

    return Retrying(
        retry=retry_if_exception(lambda e: isinstance(e, errors) and when(e)),
        stop=stop,
        wait=wait or wait_none(),
        after=count_again_after_progress,
        before_sleep=lambda _state: between(),
        reraise=True,
    )


def until(
    question: Callable[[], Answer], *, wait: wait_base, stop: stop_base = stop_never
) -> Answer:
    """Repeat a question until its answer is true, or until it is time to stop.

    Parameters:
        question: what it raises is raised at once.
        wait: the pause between two questions.
        stop: which question is the last one.

    Returns:
        The last answer.
    """
    return Retrying(
        retry=retry_if_result(lambda answer: not answer),
        stop=stop,
        wait=wait,
        retry_error_callback=_last_answer,
    )(question)


def _last_answer(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.result()
