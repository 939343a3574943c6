"""What happens while Snaptide works: writes, other workers, failures, cuts, deaths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import psycopg
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from deferred.errors import PushInterrupted, PushRunning
from sites.errors import SiteUnreachable, SnaptideError
from sites.faults import InjectedFault
from snapshots.definitions.errors import UndeliveredCalls
from snapshots.errors import (
    PositionMoved,
    RefreshRunning,
    SnapshotLogTooYoung,
    StageLost,
)
from tests.oracle.cast import Cast
from tests.oracle.drafts import Draft, drafts
from tests.oracle.moments import at_nth_point
from tests.oracle.world import MASTER, SITES

#: What can happen; what stands here often happens often.
KINDS = (
    *("write", "write", "write", "commit", "error", "error"),
    *("cut", "push", "refresh", "purge", "kill", "overtake", "overtake"),
)


#: What can happen while a snapshot is dropped or made: who works at its site besides
#: would wait for its locks, and one thread plays everybody.
ALONE = ("write", "commit", "error", "error", "cut", "kill")


@dataclass(frozen=True, slots=True)
class Accident:
    """What happens at the nth fault point; `who` is a site where it matters."""

    what: str
    nth: int
    who: str
    draft: Draft


def accidents(kinds: Sequence[str] = KINDS) -> st.SearchStrategy[Accident | None]:
    """An accident, or none."""
    return st.none() | st.builds(
        Accident,
        what=st.sampled_from(kinds),
        nth=st.integers(1, 9),
        who=st.sampled_from((MASTER, *SITES)),
        draft=drafts(),
    )


def do(
    cast: Cast, name: str, what: Callable[[], object], happens: Accident | None
) -> None:
    """Do something while an accident happens.

    Raises:
        Exception: what the accident does not explain.
    """
    cast.story.count(name)
    if happens is None:
        _attempt(cast, what, None)
        return
    act = partial(_happen, cast, happens)
    with at_nth_point(happens.nth, act, fails=happens.what == "error") as moment:
        try:
            what()
        except _ERRORS as error:
            _judge(cast, error, happens if moment.point else None)
    if moment.point:
        cast.story.count(f"{happens.what} at {moment.point}")


_ERRORS = (SnaptideError, DBAPIError, psycopg.Error, InjectedFault)


def _attempt(cast: Cast, what: Callable[[], object], happened: Accident | None) -> None:
    try:
        what()
    except _ERRORS as error:
        _judge(cast, error, happened)


def _judge(cast: Cast, error: Exception, happened: Accident | None) -> None:
    cast.story.tell(f"  {type(error).__name__}: {str(error)[:200]}")
    if not _explained(error, happened):
        cast.broken = True
        raise error


def _happen(cast: Cast, accident: Accident) -> None:
    cast.story.tell(f"  meanwhile {accident}")
    who = accident.who
    site = who if who != MASTER else SITES[0]
    match accident.what:
        case "write":
            cast.transaction(who, [accident.draft])
        case "commit":
            cast.commit_all(who)
        case "cut":
            cast.stage.cut(who)
        case "kill":
            cast.kill(who)
        case "push":
            _attempt(cast, partial(cast.push, site), None)
        case "refresh":
            _attempt(cast, partial(cast.refresh, site, "all"), accident)
        case "purge":
            cast.purge(site)
        case "overtake":
            for what in cast.overtaking(site):
                _attempt(cast, what, accident)


#: Others are at work, were at work, or have changed what is to be dropped.
_ALWAYS = (PushInterrupted, RefreshRunning, SnapshotLogTooYoung, UndeliveredCalls)

#: Another process has done what this one was about to do.
_OVERTAKEN = (PositionMoved, PushRunning, StageLost)


def _explained(error: Exception, happened: Accident | None) -> bool:
    """Whether what happened, or who has rows locked, explains an error."""
    if isinstance(error, _ALWAYS):
        return True
    if happened is None:
        return False
    if happened.what == "error":
        return isinstance(error, InjectedFault)
    if happened.what == "refresh":
        # In mid-push, where the two sides have not agreed yet, it is asked to wait.
        return isinstance(error, PositionMoved | PushRunning)
    if happened.what == "overtake" and isinstance(error, _OVERTAKEN):
        return True
    return happened.what in ("cut", "kill", "overtake") and _is_lost_line(error)


def _is_lost_line(error: BaseException) -> bool:
    if isinstance(error, SiteUnreachable | psycopg.OperationalError):
        return True
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or isinstance(
            error.orig, psycopg.OperationalError
        )
    return error.__cause__ is not None and _is_lost_line(error.__cause__)
