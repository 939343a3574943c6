"""Alternating measurements of two things, and their ratio pair by pair."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

#: A spread of the ratios beyond this makes a result doubtful.
NOISY = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One benchmark: what was measured, against what, and how it came out."""

    name: str
    measured: str
    against: str
    #: median seconds
    seconds: float
    against_seconds: float
    #: median, lowest and highest of measured / against, pair by pair
    ratio: float
    lowest: float
    highest: float

    @property
    def noisy(self) -> bool:
        """Whether the ratios differ too much to be trusted."""
        return self.highest - self.lowest > NOISY * self.ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two things that are compared."""

    label: str
    run: Callable[[], object]
    #: brings it to its start, not counted
    before: Callable[[], object] = lambda: None


def alternate(name: str, measured: Side, against: Side, *, pairs: int = 5) -> Result:
    """Run two things in turn, after one turn that is not counted."""
    times = [(_seconds(measured), _seconds(against)) for _ in range(pairs + 1)][1:]
    ratios = [a / b for a, b in times]
    return Result(
        name=name,
        measured=measured.label,
        against=against.label,
        seconds=statistics.median(a for a, _ in times),
        against_seconds=statistics.median(b for _, b in times),
        ratio=statistics.median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
    )


def _seconds(side: Side) -> float:
    side.before()
    began = time.perf_counter()
    side.run()
    return time.perf_counter() - began
