"""Alternating measurements of two or more things, and their ratios round by round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: A spread of the middle half of the ratios beyond this makes a result doubtful.
NOISY = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One benchmark: what was measured, against what, and how it came out."""

    name: str
    measured: str
    against: str
    #: medians, in `unit`
    value: float
    against_value: float
    #: median, lowest and highest of measured / against, round by round
    ratio: float
    lowest: float
    highest: float
    #: the spread of the middle half of the ratios, as a share of the median
    spread: float
    #: the ratio should not be above it
    bar: float | None = None
    unit: str = "s"

    @property
    def noisy(self) -> bool:
        """Whether the ratios differ too much to be trusted."""
        return self.spread > NOISY


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the things that are compared."""

    label: str
    run: Callable[[], object]
    #: brings it to its start, not counted
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What a side is measured against, and the bar for their ratio."""

    side: Side
    bar: float | None = None


def alternate(
    name: str, measured: Side, *against: Against, rounds: int = 5
) -> list[Result]:
    """Run all sides in turn, after one round that is not counted.

    Returns:
        One result for each of `against`, all from the same rounds.
    """
    own, *others = seconds([measured, *(one.side for one in against)], rounds)
    return [
        compared(name, measured.label, one.side.label, own, other, bar=one.bar)
        for one, other in zip(against, others, strict=True)
    ]


def seconds(sides: Sequence[Side], rounds: int = 5) -> list[tuple[float, ...]]:
    """The time that each side took, round by round; a first round is not counted."""
    times = [[_seconds(side) for side in sides] for _ in range(rounds + 1)][1:]
    return list(zip(*times, strict=True))


def compared(
    name: str,
    measured: str,
    against: str,
    values: Sequence[float],
    others: Sequence[float],
    *,
    bar: float | None = None,
    unit: str = "s",
) -> Result:
    """The result of values that were measured round by round."""
    ratios = [a / b for a, b in zip(values, others, strict=True)]
    return Result(
        name=name,
        measured=measured,
        against=against,
        value=statistics.median(values),
        against_value=statistics.median(others),
        ratio=statistics.median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        spread=_spread(ratios),
        bar=bar,
        unit=unit,
    )


def _spread(ratios: Sequence[float]) -> float:
    if len(ratios) < 2:
        return 0.0
    first, middle, third = statistics.quantiles(ratios, n=4, method="inclusive")
    return (third - first) / middle


def _seconds(side: Side) -> float:
    side.before()
    began = time.perf_counter()
    side.run()
    return time.perf_counter() - began
