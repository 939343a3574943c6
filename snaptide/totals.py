"""How long the steps of all refreshes of a group took: counts that only grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

from snapshots.definitions.refresh_notes import LIMITS, STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long a step of a group's refreshes took, of those that moved the group."""

    step: str
    #: how many took so many seconds or less; of `+Inf`, all
    at_most: Mapping[str, int]
    #: the sum of all
    seconds: float


def step_times(rows: Sequence[Any]) -> dict[str, tuple[StepTimes, ...]]:
    """By refresh group, how long its steps took, in their order.

    Parameters:
        rows: those of the table `refresh_step`, group by group.
    """
    return {
        group: tuple(_times({(one.step, float(one.at_most)): one for one in found}))
        for group, found in groupby(rows, lambda row: row.refresh_group)
    }


def _times(found: Mapping[tuple[str, float], Any]) -> Iterator[StepTimes]:
    for step in STEPS:
        of_step = [found.get((step, limit)) for limit in LIMITS]
        if any(of_step):
            counts = accumulate(one.refreshes if one else 0 for one in of_step)
            yield StepTimes(
                step=step,
                at_most=dict(zip(map(_label, LIMITS), counts, strict=True)),
                seconds=sum(one.seconds for one in of_step if one),
            )


def _label(limit: float) -> str:
    """A limit as Prometheus writes it."""
    return "+Inf" if limit == LIMITS[-1] else str(limit)
