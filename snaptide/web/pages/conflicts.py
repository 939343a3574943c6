"""The record of a master: conflicts that its rules have settled, the latest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from masters.analysis import records
from masters.analysis.records import Resolved
from masters.resolution import METHODS
from sites import QualifiedName, Site
from snaptide.web.listed import AT_ONCE, listed
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which conflicts a user looks at; "" is every one."""

    table: str
    origin: str
    method: str

    @property
    def given(self) -> Mapping[str, Any]:
        """What is chosen, by name."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def words(self) -> Sequence[str]:
        """The filter as arguments of a command."""
        return [word for n, value in self.given.items() for word in (f"--{n}", value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A settled conflict in the list."""

    record: Resolved
    table: str
    conflict: str

    @property
    def cells(self) -> Sequence[object]:
        """What the list shows of it."""
        one = self.record
        return (
            one.id,
            one.resolved_at,
            self.table,
            one.row_key,
            one.origin,
            self.conflict,
            one.method,
            one.decision,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A part of the record."""

    lines: Sequence[Line]
    #: how many match the filter
    count: int
    #: how many of them are older than those of this part
    older: int


def read(visit: Visit) -> Mapping[str, Any]:
    """The conflicts that match the address."""
    names = ("table", "origin", "method")
    wanted = Filter(**{name: visit.query(name) for name in names})
    before = visit.query_number("before")
    find = partial(_found, wanted=wanted, before=before)
    found = visit.ask(("conflicts", wanted, before), find)
    from_ = [] if before is None else ["--before", before]
    return {
        "filter": wanted,
        "methods": sorted(METHODS),
        "found": found,
        "before": before,
        "more": _address(wanted, found) if found.older else "",
        "command": command("conflicts", "list", visit.site.name, *wanted.words, *from_),
    }


def line(one: Resolved) -> Line:
    """A conflict as the list shows it."""
    return Line(
        record=one,
        table=str(QualifiedName(one.table_schema, one.table_name)),
        conflict=f"{one.kind} {one.reference}".strip(),
    )


def _found(site: Site, *, wanted: Filter, before: int | None) -> Found:
    some = records.list_resolutions(site, **wanted.given, before=before, limit=AT_ONCE)
    lines = listed([line(one) for one in some], lambda one: one.cells).rows
    count = partial(records.count_resolutions, site, **wanted.given)
    last = lines[-1].record.id if lines else 0
    return Found(lines=lines, count=count(), older=count(before=last))


def _address(wanted: Filter, found: Found) -> str:
    last = found.lines[-1].record.id
    return "?" + urlencode({**wanted.given, "before": last})


PAGE = Page(path="/sites/{site}/conflicts", template="conflicts.html", read=read)
