"""Counts that only grow: what all pushes, refreshes and rules of a site have done.

They are kept where a push, refresh or purge writes anyway, so they outlive purges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

from sqlalchemy import Connection, select

from deferred.catalog import destination
from snapshots.catalog import refresh_step
from snapshots.refresh_notes import LIMITS
from snapshots.steps import STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long a step of a group's refreshes took, of those that moved the group."""

    step: str
    #: how many took so many seconds or less; of `+Inf`, all
    at_most: Mapping[str, int]
    #: the sum of all
    seconds: float


def delivered(connection: Connection) -> dict[str, int]:
    """By destination, how many transactions pushes have brought there."""
    at = destination.c
    rows = connection.execute(select(at.name, at.delivered).order_by(at.name))
    return {row.name: row.delivered for row in rows}


def step_times(connection: Connection) -> dict[str, tuple[StepTimes, ...]]:
    """By refresh group, how long its steps took, in their order."""
    wanted = select(refresh_step).order_by(refresh_step.c.refresh_group)
    rows = connection.execute(wanted).all()
    return {
        group: tuple(_times({(one.step, one.at_most): one for one in found}))
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
