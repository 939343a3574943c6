"""Pictures of the paths of a group: text for a terminal, SVG for a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import cos, pi, sin
from xml.etree import ElementTree as xml

from groups.paths import Path, drawn

_COLOR = "#546e7a"
_BOX = (110, 34)


def text(masters: Sequence[str], paths: Iterable[Path]) -> str:
    """For each master at which changes begin, the tree that they take."""
    paths = tuple(paths)
    sources = [name for name in masters if any(p.source == name for p in paths)]
    return "\n".join(drawn(name, masters, paths) for name in sources)


def svg(title: str, masters: Sequence[str], paths: Iterable[Path]) -> str:
    """All masters on a circle, and an arrow for each way that changes take.

    An arrow is thin if it carries only changes that began at its start, and thick if
    it also carries changes that were sent on; a tooltip names the masters.
    """
    carried: dict[tuple[str, str], list[str]] = {}
    for path in sorted(paths):
        carried.setdefault((path.local, path.target), []).append(path.source)
    radius = max(110, 32 * len(masters))
    size = 2 * radius + 160
    places = {
        name: (
            size / 2 + radius * sin(2 * pi * n / len(masters)),
            size / 2 - radius * cos(2 * pi * n / len(masters)),
        )
        for n, name in enumerate(masters)
    }
    root = xml.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {size} {size}",
            "font-family": "sans-serif",
            "font-size": "14",
            "text-anchor": "middle",
        },
    )
    xml.SubElement(root, "title").text = title
    _arrow_head(root)
    for (local, target), sources in carried.items():
        _arrow(root, places[local], places[target], local, target, sources)
    for name, place in places.items():
        _box(root, name, place)
    xml.indent(root)
    return xml.tostring(root, encoding="unicode") + "\n"


def _arrow_head(root: xml.Element) -> None:
    marker = xml.SubElement(
        xml.SubElement(root, "defs"),
        "marker",
        {
            "id": "end",
            "viewBox": "0 0 8 8",
            "refX": "8",
            "refY": "4",
            "markerWidth": "10",
            "markerHeight": "10",
            "markerUnits": "userSpaceOnUse",
            "orient": "auto",
        },
    )
    xml.SubElement(marker, "path", {"d": "M0 0 8 4 0 8z", "fill": _COLOR})


def _arrow(
    root: xml.Element,
    start: tuple[float, float],
    end: tuple[float, float],
    local: str,
    target: str,
    sources: Sequence[str],
) -> None:
    """Draw an arrow from box to box, a little aside, so that both directions show."""
    (x1, y1), (x2, y2) = start, end
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    away = _to_border(dx, dy)
    x1, y1 = x1 + dx * away - dy * 5, y1 + dy * away + dx * 5
    x2, y2 = x2 - dx * away - dy * 5, y2 - dy * away + dx * 5
    line = xml.SubElement(
        root,
        "path",
        {
            "d": f"M{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f}",
            "stroke": _COLOR,
            "stroke-width": "1.2" if list(sources) == [local] else "3",
            "marker-end": "url(#end)",
        },
    )
    told = f"{local} to {target}: changes of {', '.join(sources)}"
    xml.SubElement(line, "title").text = told


def _to_border(dx: float, dy: float) -> float:
    """How far it is from the middle of a box to its border, in a direction."""
    sides = [half / abs(d) for half, d in zip((58, 20), (dx, dy), strict=True) if d]
    return min(sides)


def _box(root: xml.Element, name: str, place: tuple[float, float]) -> None:
    (x, y), (width, height) = place, _BOX
    xml.SubElement(
        root,
        "rect",
        {
            "x": f"{x - width / 2:.1f}",
            "y": f"{y - height / 2:.1f}",
            "width": str(width),
            "height": str(height),
            "rx": "6",
            "fill": "#eceff1",
            "stroke": _COLOR,
        },
    )
    shown = name if len(name) <= 14 else name[:13] + "…"
    label = xml.SubElement(root, "text", {"x": f"{x:.1f}", "y": f"{y + 5:.1f}"})
    label.text = shown
