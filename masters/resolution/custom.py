"""The method custom: a routine of the operator decides."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Self

from masters.errors import InvalidParameter
from masters.resolution import routines
from masters.resolution.conflict import (
    Conflict,
    Decision,
    Kind,
    Resolution,
    Row,
    rubbish,
    undecided,
)
from masters.resolution.method import check_names
from masters.resolution.takes import Takes
from sites import time_limit

#: How long a routine may take for one conflict.
SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """Oracle, USER FUNCTION, with the decisions of Virtuoso's custom resolvers.

    The routine gets a copy of the conflict and returns a Resolution. If it raises,
    returns anything else or does not answer in time, the conflict stays undecided with
    the reason: a routine never stops the queue. See `sites.time_limit` for what a time
    limit can do.

    Parameters:
        routine: the name under which the routine is registered.
        seconds: how long it may take; 5 if not given.
    """

    name: ClassVar[str] = "custom"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)

    routine: str
    function: routines.Routine
    seconds: float = SECONDS

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, required=["routine"], optional=["seconds"])
        routine = parameters["routine"]
        if not isinstance(routine, str):
            raise InvalidParameter(
                f"custom: routine must be the name of a routine, not {routine!r}.",
                method=cls.name,
                parameter="routine",
                value=routine,
            )
        seconds = parameters.get("seconds", SECONDS)
        if isinstance(seconds, bool) or not (
            isinstance(seconds, int | float) and 0 < seconds < float("inf")
        ):
            raise InvalidParameter(
                f"custom: seconds must be a positive number, not {seconds!r}.",
                method=cls.name,
                parameter="seconds",
                value=seconds,
            )
        return cls(
            routine=routine, function=routines.find(routine), seconds=float(seconds)
        )

    def reads(self) -> None:
        """None: a routine may look at any column."""

    def takes(self) -> Mapping[str, Takes]:
        return {}

    def __call__(self, conflict: Conflict) -> Resolution:
        try:
            answer = time_limit.call(
                self.routine, self.function, _copy(conflict), self.seconds
            )
            reason = rubbish(answer, conflict)
        except time_limit.TooSlow as slow:
            return undecided(f"routine {self.routine} {slow}")
        except Exception as error:  # the user's code may raise anything
            raised = "".join(traceback.format_exception_only(error)).strip()
            return undecided(f"routine {self.routine} raised {raised}")
        if reason is not None:
            return undecided(f"routine {self.routine} {reason}")
        if answer.decision is Decision.UNDECIDED and not answer.reason:
            return undecided(f"routine {self.routine} did not decide")
        return answer


def _copy(conflict: Conflict) -> Conflict:
    """A copy of the conflict, so that the routine cannot change the original rows."""
    return replace(
        conflict,
        old=_frozen(conflict.old),
        new=_frozen(conflict.new),
        current=_frozen(conflict.current),
    )


def _frozen(row: Row | None) -> Row | None:
    return None if row is None else MappingProxyType(deepcopy(dict(row)))
