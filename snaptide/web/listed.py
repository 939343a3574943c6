"""Cuts lists so that pages stay small, and says exactly how much is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from markupsafe import escape

from sites.errors import SnaptideError
from snaptide.web.errors import PageMissing
from snaptide.web.rendering import LONGEST_IN_LIST, shown
from snaptide.web.visit import Visit

Row = TypeVar("Row")

#: So many rows of a list are shown at once.
AT_ONCE = 50
#: And so many bytes, besides what else is on its page.
ROOM = 50_000
#: The markup of a row, without its values.
MARKUP = 700
#: Bytes for what sites say that cannot answer.
ROOM_OF_PROBLEMS = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[Row]):
    """The part of a list that a page shows."""

    rows: Sequence[Row]
    #: how many stand before them
    start: int
    #: how many there are in all
    total: int

    @property
    def left_out(self) -> int:
        """How many are not shown."""
        return self.total - len(self.rows)

    @property
    def end(self) -> int:
        """The number of the last one that is shown."""
        return self.start + len(self.rows)

    @property
    def next(self) -> int | None:
        """Where the next part starts; None if this is the last."""
        return self.end if self.end < self.total else None


def listed(
    found: Sequence[Row],
    texts: Callable[[Row], Iterable[object]],
    *,
    start: int = 0,
    total: int | None = None,
    room: int = ROOM,
    longest: int = LONGEST_IN_LIST,
    at_once: int = AT_ONCE,
    markup: int = MARKUP,
) -> Listed[Row]:
    """Take as many rows of a list as a page has room for; at least one.

    Parameters:
        texts: the values that the page shows of a row, as `shown` shows them; one that
            it has in several places comes as often.
        start: how many are left out before; none if there are not so many.
        total: how many there are, if only those from the start on are given.
        room: in bytes.
        longest: a text is cut after so many characters.
        at_once: so many rows at most.
        markup: the bytes of a row, without its values.
    """
    if total is None:
        total = len(found)
        start = start if start < total else 0
        found = found[start:]
    rows: list[Row] = []
    for row in found[:at_once]:
        room -= markup + sum(bytes_of(text, longest) for text in texts(row))
        if rows and room < 0:
            break
        rows.append(row)
    return Listed(rows=rows, start=start, total=total)


def problems_of(
    found: Mapping[str, SnaptideError | None],
) -> Listed[tuple[str, SnaptideError]]:
    """What sites say that cannot answer; None is one that has answered."""
    said = [(name, error) for name, error in found.items() if error is not None]

    def texts(one: tuple[str, SnaptideError]) -> Iterable[object]:
        name, error = one
        return (name, error.message, error.code)

    return listed(said, texts, room=ROOM_OF_PROBLEMS, markup=80)


def bytes_of(value: object, longest: int = LONGEST_IN_LIST) -> int:
    """How many bytes of a page a value takes."""
    return len(escape(shown(value, longest)).encode())


def whole(text: str) -> Iterator[str]:
    """A text that a page shows without a cut, in pieces that `listed` counts."""
    for at in range(0, len(text), LONGEST_IN_LIST):
        yield text[at : at + LONGEST_IN_LIST]


def in_address(name: str) -> Iterator[str]:
    """A name as it stands in an address, in pieces that `listed` counts."""
    return whole(quote(name, safe=""))


def start_of(visit: Visit, name: str = "from") -> int:
    """The place in the page's list that the address names.

    Parameters:
        name: of the address's parameter.

    Raises:
        PageMissing: it is no number of ours.
    """
    text = visit.query(name) or "0"
    if not text.isdecimal() or int(text) >= 2**31:
        raise PageMissing("There is no such part of the list.")
    return int(text)
