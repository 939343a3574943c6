"""A parked transaction: its rows side by side, why it is parked, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import deferred
from deferred import Argument, ErrorCall, ErrorProcedure, ErrorTransaction
from deferred.parked.image import Image
from sites import Site
from snaptide.web.errors import PageMissing
from snaptide.web.listed import Listed, bytes_of, listed
from snaptide.web.page import Page
from snaptide.web.rendering import LONGEST, LONGEST_IN_LIST
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


#: Bytes of a page for the calls; fewer if a preview stands above them.
ROOM, ROOM_BELOW_PREVIEW = 42_000, 26_000
#: The markup of a call and of a cell, which has a column's name in so many places.
_OF_CALL, _OF_CELL, _NAMES = 800, 720, 5
#: Bytes for procedures that are called, and for the arguments of one.
_OF_PROCEDURES, _OF_ARGUMENTS = 8_000, 6_000
#: So many of the transactions that wait are named.
NAMED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A column of a call: its four values, and what a form may change."""

    column: str
    #: each value as text; None is NULL
    old: str | None
    new: str | None
    #: at the master, when the transaction was parked
    current: str | None
    #: at the master, now
    now: str | None
    #: the master has another value than the site's change started from
    differs: bool
    #: the master has changed it since
    moved: bool
    #: the site has changed it
    changed: bool
    #: it has a new value, which the form can hold
    editable: bool
    #: its values are cut after so many characters
    longest: int = LONGEST

    @property
    def bytes(self) -> int:
        """How many bytes of a page it takes."""
        values = (self.old, self.new, self.current, self.now)
        said = sum(bytes_of(value, self.longest) for value in values)
        return _OF_CELL + _NAMES * bytes_of(self.column) + said

    @property
    def short(self) -> Cell:
        """The cell with its values cut as in a list."""
        fits = len(self.new or "") <= LONGEST_IN_LIST
        return replace(self, longest=LONGEST_IN_LIST, editable=self.editable and fits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A procedure that is called, with the arguments that the page has room for."""

    procedure: ErrorProcedure
    arguments: Listed[Argument]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A call as a table."""

    call: ErrorCall
    kind: str
    cells: tuple[Cell, ...]
    #: columns that the page has no room for
    left_out: int = 0

    @property
    def bytes(self) -> int:
        """How many bytes of a page it takes."""
        said = bytes_of(self.call.conflict, LONGEST_IN_LIST)
        return _OF_CALL + said + sum(cell.bytes for cell in self.cells)


def read(visit: Visit) -> Mapping[str, Any]:
    """The transaction with a page of its calls."""
    after = visit.query("after") or "0"
    if not after.isdecimal() or int(after) >= 2**63:
        raise PageMissing("There is no such page of the transaction.")
    number = visit.number("id")
    find = partial(_found, number=number, after=int(after))
    return about(visit, visit.ask(("error", number, after), find))


def about(visit: Visit, error: ErrorTransaction, room: int = ROOM) -> dict[str, Any]:
    """What the template shows of a transaction.

    Parameters:
        room: bytes for its calls.
    """
    sides, called, last = _page(error, room)
    numbers = [one.call_no for one in error.calls]
    numbers += [one.call_no for one in error.procedures]
    return {
        "error": error,
        "sides": sides,
        "called": called,
        "after": min(numbers, default=1) - 1,
        "next_after": last,
        "before": _numbers(e.on for e in error.edges if e.waiting == error.id),
        "behind": _numbers(e.waiting for e in error.edges if e.on == error.id),
        "withdrawn": error.reason == "withdrawn",
        "command": command("errors", "show", visit.site.name, error.id),
    }


def _page(
    error: ErrorTransaction, room: int
) -> tuple[Sequence[Side], Sequence[Called], int | None]:
    """The calls that a page has room for, and the last of them if more follow."""
    sides = fitting(error.calls, room)
    every = [_called(one) for one in error.procedures]
    called = listed(every, _of_procedure, room=_OF_PROCEDURES, markup=200).rows
    cut = [sides[-1].call.call_no] if len(sides) < len(error.calls) else []
    if len(called) < len(every):
        cut.append(called[-1].procedure.call_no)
    if not cut:
        return sides, called, error.next_after
    last = min(cut)
    return (
        [one for one in sides if one.call.call_no <= last],
        [one for one in called if one.procedure.call_no <= last],
        last,
    )


def fitting(calls: Sequence[ErrorCall], room: int) -> Sequence[Side]:
    """As many calls as fit; of the first at least the columns that matter most."""
    sides: list[Side] = []
    for call in calls:
        made = side(call)
        if made.bytes > room:
            return sides or [_cut(made, room)]
        room -= made.bytes
        sides.append(made)
    return sides


def _cut(made: Side, room: int) -> Side:
    """A call with what a page has room for: the columns that differ come first."""
    cells: list[Cell] = []
    for cell in sorted(made.cells, key=lambda one: not (one.differs or one.changed)):
        fits = cell if cell.bytes < room / 3 else cell.short
        room -= fits.bytes
        if cells and room < 0:
            break
        cells.append(fits)
    return replace(made, cells=(*cells,), left_out=len(made.cells) - len(cells))


def _numbers(found: Iterable[int]) -> Listed[int]:
    return listed(sorted({*found}), lambda one: (one, one), at_once=NAMED, markup=60)


def _called(one: ErrorProcedure) -> Called:
    given = one.arguments
    fits = listed(
        given, _of_argument, room=_OF_ARGUMENTS, at_once=len(given), markup=90
    )
    return Called(procedure=one, arguments=fits)


def _of_argument(one: Argument) -> Iterable[object]:
    return (one.value, one.type)


def _of_procedure(one: Called) -> Iterable[object]:
    yield from (one.procedure.name, one.procedure.error)
    for argument in one.arguments.rows:
        # With the markup around it.
        yield from (*_of_argument(argument), " " * 90)


def side(call: ErrorCall) -> Side:
    """A call with its images beside one another."""
    images = (call.old, call.new, call.current, call.now)
    columns = dict.fromkeys(name for image in images for name in image or {})
    return Side(
        call=call,
        kind=KINDS.get(call.kind, call.kind),
        cells=tuple(_cell(call, name) for name in columns),
    )


def _cell(call: ErrorCall, name: str) -> Cell:
    images = (call.old, call.new, call.current, call.now)
    old, new, current, now = (_of(image, name) for image in images)
    both = call.old is not None and call.current is not None
    return Cell(
        column=name,
        old=old,
        new=new,
        current=current,
        now=now,
        moved=now != current or (call.now is None) != (call.current is None),
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
