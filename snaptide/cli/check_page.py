"""The report of a check as a page of HTML that needs nothing besides itself.

Names and values become text of a tree, and no markup: the serializer escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from sites.words import counted
from snapshots.check.listed import cut
from snapshots.check.report import Reason
from snaptide.check_words import meanings, more_of, said_of
from snaptide.cli.output import cell
from snaptide.units import duration

if TYPE_CHECKING:
    from snapshots.check.report import CheckReport, Difference, SnapshotCheck

_STYLE = """
body { font: 15px/1.5 sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
th, td { border: 1px solid #ccc; padding: 0.2em 0.6em; text-align: left;
         vertical-align: top; overflow-wrap: anywhere; unicode-bidi: isolate; }
td { white-space: pre-wrap; }
td.number { text-align: right; }
th { background: #f2f2f2; }
tr.unexplained td { background: #fde8e8; }
.null { color: #888; font-style: italic; }
"""
#: The page runs nothing and loads nothing, whatever a value says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: CheckReport) -> str:
    """The report as HTML."""
    root = Element("html", lang="en")
    head, body = SubElement(root, "head"), SubElement(root, "body")
    title = f"Check of {report.site}"
    SubElement(head, "meta", charset="utf-8")
    # In this order: what stands before a policy is not bound by it.
    SubElement(
        head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY}
    )
    _text(head, "title", title)
    _text(head, "style", _STYLE)
    _text(body, "h1", title)
    _text(body, "p", said_of(report))
    facts = {
        "at": report.at.isoformat(sep=" ", timespec="seconds"),
        "took": duration(report.seconds),
        "saved as": report.run,
        "only rows where": report.where,
        "only columns": ", ".join(report.columns) or None,
    }
    _table(body, (), [(k, v) for k, v in facts.items() if v is not None])
    for one in report.snapshots:
        _snapshot(body, one)
    if report.away:
        _text(body, "h2", "Not compared")
        _table(body, (), [*report.away.items()])
    if report.differing:
        _text(body, "h2", "Reasons")
        _table(body, (), [*meanings(report.snapshots).items()])
    html = ElementTree.tostring(root, encoding="unicode", method="html")
    return f"<!DOCTYPE html>\n{html}\n"


def _snapshot(body: Element, one: SnapshotCheck) -> None:
    _text(body, "h2", one.name)
    _text(body, "p", _proven(one))
    facts = [
        ("master", f"{one.table} at {one.master}"),
        ("refresh group", one.group),
        ("rows at the master", one.rows_master),
        ("rows here", one.rows_here),
        ("the site shows", one.position),
        ("moment of the site", one.moment_here),
        ("moment of the master", one.moment_master),
        ("columns that the snapshot does not have", ", ".join(one.not_carried) or None),
    ]
    _table(body, (), [fact for fact in facts if fact[1] is not None])
    if not one.counts:
        return
    counts = [(c.kind.value, c.reason.value, c.rows) for c in one.counts]
    _table(body, ("kind", "reason", "rows"), counts)
    total = sum(count.rows for count in one.counts)
    if len(one.differences) < total:
        _text(body, "p", f"{len(one.differences):,} of {counted(total, 'row')}:")
    _differences(body, one.differences)


def _proven(one: SnapshotCheck) -> str:
    if one.equal:
        return "Proven: each row that was compared is the same at both sides."
    if one.unproven is not None:
        return f"Nothing is proven: {one.unproven}."
    if not one.unexplained:
        return "Proven: what differs has a reason, and all other rows are the same."
    return (
        f"Proven: {counted(one.unexplained, 'row', 'differ')} that no work under way "
        "explains. All rows that are not counted below are the same."
    )


def _differences(body: Element, rows: Sequence[Difference]) -> None:
    if not rows:
        return
    columns = ("key", "kind", "reason", "at the master", "here", "more")
    made = _table(body, columns, [])
    for row in rows:
        line = SubElement(made, "tr")
        if row.reason is Reason.UNEXPLAINED:
            line.set("class", "unexplained")
        _values(line, row.key)
        _text(line, "td", row.kind.value)
        _text(line, "td", row.reason.value)
        _values(line, row.master)
        _values(line, row.here)
        _text(line, "td", more_of(row, cell))


def _values(line: Element, row: Mapping[str, str | None] | None) -> None:
    """A cell with the columns and values of a row."""
    made = SubElement(line, "td")
    if row is None:
        _text(made, "span", "no row").set("class", "null")
        return
    for name, value in row.items():
        each = SubElement(made, "div")
        _text(each, "b", name).tail = " "
        if value is None:
            _text(each, "span", "NULL").set("class", "null")
        else:
            _text(each, "span", cut(value) or "")


def _table(
    body: Element, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> Element:
    made = SubElement(body, "table")
    if columns:
        head = SubElement(made, "tr")
        for name in columns:
            _text(head, "th", name)
    for row in rows:
        line = SubElement(made, "tr")
        for at, value in enumerate(row):
            number = isinstance(value, int)
            cell = _text(
                line,
                "td" if columns or at else "th",
                f"{value:,}" if number else str(value),
            )
            if number:
                cell.set("class", "number")
    return made


def _text(parent: Element, tag: str, text: str) -> Element:
    made = SubElement(parent, tag)
    made.text = text
    return made
