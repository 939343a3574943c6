"""Trying again what failed, and waiting for a condition, with tenacity's strategies.

Work can fail because a table was altered: PL/pgSQL keeps the plans of a trigger as long
as a session lives, and those of an expression even when a column that it reads gets
another type. The session then refuses each row ("type of parameter 5 does not match
that when preparing the plan"), while a new session accepts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    retry_if_result,
    stop_after_attempt,
    stop_never,
    wait_none,
)
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from sites.errors import SnaptideError

Answer = TypeVar("Answer")

#: Errors for a type, or a result, that differs from the plan; and for a column that got
#: another name, or was dropped, since the work has described its table.
_OUTDATED = ("42804", "0A000", "42703")


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


def in_new_sessions(
    renew: Callable[[], None],
    work: Callable[[], Answer],
    how_far: Callable[[], int] = lambda: 0,
) -> Answer:
    """Do some work; if plans or descriptions are outdated, repeat it in new sessions.

    Parameters:
        renew: has a site open new sessions from now on, as `Site.release`.
        work: takes its sessions from the site, and returns them.
        how_far: how much is done. If plans are outdated again after it has grown, the
            work is repeated again.

    Raises:
        the error of the work, if it fails in new sessions, too.
    """
    attempts = on(
        DBAPIError,
        SnaptideError,
        when=has_outdated_plans,
        stop=stop_after_attempt(2),
        progress=how_far,
        between=renew,
    )
    return attempts(work)


def has_outdated_plans(error: BaseException | None) -> bool:
    """Whether outdated plans may have caused an error, or one of its causes."""
    while error is not None:
        said = error.orig if isinstance(error, DBAPIError) else error
        if getattr(said, "sqlstate", None) in _OUTDATED:
            return True
        error = error.__cause__
    return False
