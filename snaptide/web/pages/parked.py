"""A parked transaction: its rows side by side, why it is parked, and what waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import deferred
from deferred import ErrorCall, ErrorTransaction
from deferred.parked.image import Image
from sites import Site
from snaptide.web.errors import PageMissing
from snaptide.web.page import Page
from snaptide.web.rendering import LONGEST
from snaptide.web.visit import Visit, command

#: So many calls are shown at once.
AT_ONCE = 20

KINDS = {
    "I": "insert",
    "U": "update",
    "M": "change of key",
    "D": "delete",
    "R": "delete and insert",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A column of a call: its three values, and what a form may change."""

    column: str
    #: each value as text; None is NULL
    old: str | None
    new: str | None
    current: str | None
    #: the master has another value than the site's change started from
    differs: bool
    #: the site has changed it
    changed: bool
    #: it has a new value, which the form can hold
    editable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A call as a table."""

    call: ErrorCall
    kind: str
    cells: tuple[Cell, ...]


def read(visit: Visit) -> Mapping[str, Any]:
    """The transaction with a page of its calls."""
    after = visit.query("after") or "0"
    if not after.isdecimal() or int(after) >= 2**63:
        raise PageMissing("There is no such page of the transaction.")
    number = visit.number("id")
    find = partial(_found, number=number, after=int(after))
    return about(visit, visit.ask(("error", number, after), find))


def about(visit: Visit, error: ErrorTransaction) -> dict[str, Any]:
    """What the template shows of a transaction."""
    return {
        "site": visit.site.name,
        "error": error,
        "sides": [side(call) for call in error.calls],
        "before": sorted({e.on for e in error.edges if e.waiting == error.id}),
        "behind": sorted({e.waiting for e in error.edges if e.on == error.id}),
        "withdrawn": error.reason == "withdrawn",
        "command": command("errors", "show", visit.site.name, error.id),
    }


def side(call: ErrorCall) -> Side:
    """A call with its images beside one another."""
    images = (call.old, call.new, call.current)
    columns = dict.fromkeys(name for image in images for name in image or {})
    return Side(
        call=call,
        kind=KINDS.get(call.kind, call.kind),
        cells=tuple(_cell(call, name) for name in columns),
    )


def _cell(call: ErrorCall, name: str) -> Cell:
    old, new, current = (_of(i, name) for i in (call.old, call.new, call.current))
    both = call.old is not None and call.current is not None
    return Cell(
        column=name,
        old=old,
        new=new,
        current=current,
        differs=old != current if both else call.old is not call.current,
        changed=call.old is None or call.new is None or old != new,
        editable=call.new is not None
        and name in call.new
        and len(new or "") <= LONGEST,
    )


def _of(image: Image | None, name: str) -> str | None:
    return None if image is None else image.get(name)


def _found(site: Site, *, number: int, after: int) -> ErrorTransaction:
    return deferred.show_error(site, number, after=after, limit=AT_ONCE)


PAGE = Page(path="/sites/{site}/errors/{id:int}", template="parked.html", read=read)
