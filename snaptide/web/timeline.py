"""Draws the history of a row: a lane for each site, its events from left to right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree import ElementTree as xml

from deferred import Event

#: So many events are drawn.
MOST = 40
#: The width of the names and of an event, and the height of a lane.
_NAMES, _STEP, _LANE = 130, 26, 34
_COLOR = "#546e7a"

#: What stands for an event, by its kind; others are small dots.
MARKS = {"change": "circle", "settled": "diamond", "parked": "square"}


def drawn(events: Sequence[Event], words: Callable[[Event], str]) -> str:
    """The latest events as SVG; "" if there are none.

    A line leads from a change to what came of the same transaction elsewhere.

    Parameters:
        events: in the order of their times.
        words: what a tooltip says of an event.
    """
    shown = events[-MOST:]
    if not shown:
        return ""
    lanes = {name: n for n, name in enumerate(dict.fromkeys(e.site for e in shown))}
    places = [
        (_NAMES + _STEP * (n + 0.5), _LANE * (lanes[event.site] + 0.5))
        for n, event in enumerate(shown)
    ]
    width, height = _NAMES + _STEP * len(shown), _LANE * len(lanes)
    root = xml.Element(
        "svg",
        {
            "viewBox": f"0 0 {width} {height}",
            "width": str(width),
            "height": str(height),
            "font-family": "sans-serif",
            "font-size": "14",
        },
    )
    for name, lane in lanes.items():
        _lane(root, name, _LANE * (lane + 0.5), width)
    _ways(root, shown, places)
    for event, place in zip(shown, places, strict=True):
        mark = _mark(root, MARKS.get(event.kind, ""), place)
        xml.SubElement(mark, "title").text = words(event)
    return xml.tostring(root, encoding="unicode")


def _lane(root: xml.Element, name: str, y: float, width: int) -> None:
    at = f"M{_NAMES} {y:g}H{width}"
    xml.SubElement(root, "path", {"d": at, "stroke": _COLOR, "opacity": "0.4"})
    told = {"x": "0", "y": f"{y + 5:g}", "fill": "currentColor"}
    label = xml.SubElement(root, "text", told)
    label.text = name if len(name) <= 14 else name[:13] + "…"


def _ways(
    root: xml.Element, events: Sequence[Event], places: Sequence[tuple[float, float]]
) -> None:
    """The ways of transactions from the event where each was first seen."""
    began: dict[tuple[str, str], int] = {}
    for n, event in enumerate(events):
        first = began.setdefault((event.origin, event.transaction), n)
        (x1, y1), (x2, y2) = places[first], places[n]
        if y1 != y2:
            way = {"d": f"M{x1:g} {y1:g} {x2:g} {y2:g}", "stroke": _COLOR}
            xml.SubElement(root, "path", way)


def _mark(root: xml.Element, shape: str, place: tuple[float, float]) -> xml.Element:
    (x, y), color = place, {"fill": _COLOR, "stroke": "currentColor"}
    if shape == "diamond":
        around = f"M{x:g} {y - 9:g}l9 9-9 9-9-9z"
        return xml.SubElement(root, "path", {"d": around, **color})
    if shape == "square":
        corner = {"x": f"{x - 7:g}", "y": f"{y - 7:g}", "width": "14", "height": "14"}
        return xml.SubElement(root, "rect", {**corner, **color})
    radius = "7" if shape == "circle" else "3"
    middle = {"cx": f"{x:g}", "cy": f"{y:g}", "r": radius}
    return xml.SubElement(root, "circle", {**middle, **color})
