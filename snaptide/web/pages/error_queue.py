"""Error queues: how many transactions are parked where, and those of one site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import deferred
from deferred import ErrorTransaction
from sites import Site
from snaptide.web.errors import PageMissing
from snaptide.web.listed import in_address, listed, problems_of, start_of, whole
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command

#: So many transactions are shown at once.
AT_ONCE = 50
#: So many sites can be chosen, in so many bytes.
MOST_ORIGINS, ROOM_OF_ORIGINS = 300, 6_000
#: A tree is drawn no deeper.
DEEPEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which transactions of an error queue a user looks at."""

    #: "" is every one
    origin: str
    reason: str

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Filter:
        """The filter that an address or a form gives."""
        return cls(
            origin=str(values.get("origin", "")), reason=str(values.get("reason", ""))
        )

    def chosen(self, site: Site) -> list[ErrorTransaction]:
        """The parked transactions of a site that match."""
        return deferred.list_errors(
            site, self.origin or None, reason=self.reason or None
        )

    @property
    def words(self) -> Sequence[str]:
        """The filter as arguments of a command."""
        origin = ["--origin", self.origin] if self.origin else []
        return [*origin, *(["--reason", self.reason] if self.reason else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A parked transaction in the tree."""

    error: ErrorTransaction
    depth: int


def read(visit: Visit) -> Mapping[str, Any]:
    """The transactions that match the address, of one page."""
    wanted = Filter.of(visit.request.query_params)
    errors = visit.ask(("errors", wanted), wanted.chosen)
    page = _page(visit)
    start = (page - 1) * AT_ONCE
    found = list(tree(errors))
    return {
        "filter": wanted,
        "branches": found[start : start + AT_ONCE],
        "count": len(errors),
        "latest": max((one.id for one in errors), default=0),
        "origins": listed(
            sorted({one.origin for one in errors}),
            whole,
            room=ROOM_OF_ORIGINS,
            at_once=MOST_ORIGINS,
            markup=20,
        ),
        "page": page,
        "pages": max(-(-len(errors) // AT_ONCE), 1),
        "command": command("errors", "list", visit.site.name, *wanted.words),
    }


def tree(errors: Sequence[ErrorTransaction]) -> Iterator[Branch]:
    """Transactions, each followed by those that wait for it; each comes once."""
    by_id = {one.id: one for one in errors}
    below: dict[int, list[int]] = {}
    for one in errors:
        for on in one.waits_for:
            below.setdefault(on, []).append(one.id)
    seen: set[int] = set()
    tops = [e.id for e in errors if not by_id.keys() & set(e.waits_for)]
    # If some waited in a circle, they would still have to be shown: after the tops.
    open_ = [(number, 0) for number in reversed([*tops, *by_id])]
    while open_:
        number, depth = open_.pop()
        if number not in seen:
            seen.add(number)
            yield Branch(error=by_id[number], depth=min(depth, DEEPEST))
            open_ += [(w, depth + 1) for w in reversed(below.get(number, ()))]


def _page(visit: Visit) -> int:
    text = visit.query("page") or "1"
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise PageMissing("There is no such page of the list.")
    return int(text)


def read_list(visit: Visit) -> Mapping[str, Any]:
    """Count what is parked at each site."""
    answers = visit.console.questions.ask_all(
        visit.console.sites, "errors", deferred.list_errors
    )
    found = [
        (site, one)
        for site, answer in answers.items()
        for one in _counted(answer.value or [])
    ]
    return {
        "queues": listed(found, _of_queue, start=start_of(visit)),
        "problems": problems_of({n: one.error for n, one in answers.items()}),
    }


def _counted(errors: list[ErrorTransaction]) -> list[Mapping[str, Any]]:
    """By origin and reason: how many, and since when."""
    counts = Counter((one.origin, one.reason) for one in errors)
    oldest = {(e.origin, e.reason): e for e in reversed(errors)}
    return [
        {
            "origin": origin,
            "reason": reason,
            "count": count,
            "since": oldest[origin, reason].parked_at,
        }
        for (origin, reason), count in sorted(counts.items())
    ]


def _of_queue(found: tuple[str, Mapping[str, Any]]) -> Iterable[object]:
    site, one = found
    # The origin is shown, and stands in an address.
    return (site, site, one["origin"], *in_address(one["origin"]))


LIST = Page(path="/errors", template="error_queues.html", read=read_list)

PAGE = Page(path="/sites/{site}/errors", template="error_queue.html", read=read)
