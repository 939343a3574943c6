"""Draws the age of a refresh group over time.

It grows by a second each second. After each refresh that did not fail, it is the time
that this took since the moment of the master that it brought. So the times of refreshes
say what it was; where none is known, nothing is drawn. Times are compared as moments,
whatever zone they are told in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from xml.etree import ElementTree as xml

from snapshots import PastRefresh
from snaptide.lag import old_at_end
from snaptide.units import duration
from snaptide.web.rendering import shown

#: A drawing goes back so many seconds at most.
LONGEST = 7 * 24 * 3600.0

_COLOR, _FAILED = "#546e7a", "#c62828"
#: The whole drawing, which shrinks with its page, and the part with the lines: its left
#: edge, top and bottom.
_WIDTH, _HEIGHT = 512, 180
_LEFT, _TOP, _BOTTOM = 64, 14, 150


class Line(NamedTuple):
    """A time in which it grew, in seconds since the epoch; the age at its start."""

    start: float
    end: float
    age: float


class Block(NamedTuple):
    """A time in which it was known to be no more than so much."""

    start: float
    end: float
    at_most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The age of a group over time, from a moment until now."""

    start: float
    now: float
    lines: Sequence[Line]
    blocks: Sequence[Block]
    #: when refreshes failed, and the age then; None if there was none before. Of those
    #: that share a row, the first and the last
    failed: Sequence[tuple[float, float | None]]

    @property
    def highest(self) -> float:
        """The highest age that is drawn."""
        ages = [line.age + line.end - line.start for line in self.lines]
        ages += [block.at_most for block in self.blocks]
        return max([*ages, *(age or 0.0 for _, age in self.failed)], default=0.0)


def of(
    past: Sequence[PastRefresh], refreshed_at: datetime | None, now: datetime
) -> Ages | None:
    """The age as the last refreshes tell it; None if it was never known.

    Parameters:
        past: the latest first.
        refreshed_at: when the last refresh ended that did not fail.
        now: by the site's clock.
    """
    until = now.timestamp()
    since = until - LONGEST
    lines = [line for line in _lines(past, refreshed_at, until) if line.end > since]
    lines = [_cut(line, since) for line in lines]
    blocks = [
        block._replace(start=max(block.start, since))
        for block in _blocks(past)
        if block.end > since
    ]
    if not lines and not blocks:
        return None
    start = min([*(one.start for one in lines), *(one.start for one in blocks)])
    return Ages(
        start=start,
        now=until,
        lines=lines,
        blocks=blocks,
        failed=[(at, age) for at, age in _failures(past) if at >= start],
    )


def _lines(
    past: Sequence[PastRefresh], refreshed_at: datetime | None, until: float
) -> Iterator[Line]:
    after = _after(past)
    for one in reversed(past):
        start = one.previous_at
        if one.outcome != "failed" and start is not None:
            times = start.timestamp(), one.first_at.timestamp()
            yield Line(*times, after.get(start, 0.0))
    if refreshed_at is not None:
        yield Line(refreshed_at.timestamp(), until, after.get(refreshed_at, 0.0))


def _after(past: Sequence[PastRefresh]) -> dict[datetime, float]:
    """The age just after each refresh that did not fail, by when it ended."""
    return {
        one.ended_at: old_at_end(one.steps) for one in past if one.outcome != "failed"
    }


def _cut(line: Line, since: float) -> Line:
    """The part of a line that begins at a moment."""
    start = max(line.start, since)
    return Line(start, line.end, line.age + start - line.start)


def _blocks(past: Sequence[PastRefresh]) -> Iterator[Block]:
    """Those that share a row: the longest time between two of them is known."""
    for one in reversed(past):
        if one.outcome != "failed" and one.longest is not None:
            times = one.first_at.timestamp(), one.ended_at.timestamp()
            yield Block(*times, one.longest.total_seconds())


def _failures(past: Sequence[PastRefresh]) -> Iterator[tuple[float, float | None]]:
    after = _after(past)
    for one in reversed(past):
        if one.outcome != "failed":
            continue
        before, moment = one.previous_at, None
        if before is not None:
            moment = before.timestamp() - after.get(before, 0.0)
        for at in sorted({one.first_at.timestamp(), one.ended_at.timestamp()}):
            yield at, None if moment is None else at - moment


def drawn(ages: Ages, start: str, now: str) -> str:
    """The same as SVG.

    Parameters:
        start, now: its first moment and its last, in words.
    """
    highest = max(ages.highest, 1.0)
    wide = max(ages.now - ages.start, 1.0)

    def x(at: float) -> str:
        return f"{_LEFT + (_WIDTH - _LEFT) * (at - ages.start) / wide:.1f}"

    def y(age: float) -> str:
        return f"{_BOTTOM - (_BOTTOM - _TOP) * age / highest:.1f}"

    root = _frame(f"Age of the group from {start} to {now}")
    blocks = "".join(
        f"M{x(one.start)} {_BOTTOM}V{y(one.at_most)}H{x(one.end)}V{_BOTTOM}z"
        for one in ages.blocks
    )
    lines = "".join(
        f"M{x(one.start)} {y(one.age)} {x(one.end)} "
        f"{y(one.age + one.end - one.start)}"
        # A refresh ended it, or it grows on.
        + (f"V{_BOTTOM}" if one.end < ages.now else "")
        for one in ages.lines
    )
    crosses = "".join(
        f"M{x(at)} {y(age or 0.0)}m-4-4 8 8m0-8-8 8" for at, age in ages.failed
    )
    for path, options in (
        (blocks, {"fill": _COLOR, "opacity": "0.5"}),
        (lines, {"fill": "none", "stroke": _COLOR, "stroke-width": "1.5"}),
        (crosses, {"fill": "none", "stroke": _FAILED, "stroke-width": "2"}),
    ):
        if path:
            xml.SubElement(root, "path", {"d": path, **options})
    _label(root, 0, _TOP + 5, duration(highest))
    _label(root, 0, _BOTTOM + 5, "0")
    _label(root, _LEFT, _HEIGHT - 8, start)
    _label(root, _WIDTH, _HEIGHT - 8, now, anchor="end")
    return xml.tostring(root, encoding="unicode")


def moment(at: float, like: datetime) -> str:
    """A moment as pages show it, in the zone of another."""
    return shown(datetime.fromtimestamp(at, like.tzinfo).replace(microsecond=0))


def _frame(title: str) -> xml.Element:
    root = xml.Element(
        "svg",
        {
            "role": "img",
            "viewBox": f"0 0 {_WIDTH} {_HEIGHT}",
            "font-family": "sans-serif",
            "font-size": "14",
        },
    )
    xml.SubElement(root, "title").text = title
    at = f"M{_LEFT} {_TOP}V{_BOTTOM}H{_WIDTH}"
    options = {"fill": "none", "stroke": _COLOR, "opacity": "0.4"}
    xml.SubElement(root, "path", {"d": at, **options})
    return root


def _label(
    root: xml.Element, x: float, y: float, text: str, anchor: str = "start"
) -> None:
    at = {"x": str(x), "y": str(y), "fill": "currentColor", "text-anchor": anchor}
    xml.SubElement(root, "text", at).text = text
