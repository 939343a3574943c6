"""The history of a row over all sites, found by its table and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from sqlalchemy import select

import deferred
from deferred import Event, History
from sites import Site
from sites.errors import SiteUnreachable, SnaptideError
from snaptide.asking import asking
from snaptide.row_words import key_of, row_of, values, what
from snaptide.web.errors import PageMissing
from snaptide.web.listed import listed, problems_of, start_of
from snaptide.web.page import Page
from snaptide.web.rendering import shown
from snaptide.web.timeline import MOST as DRAWN
from snaptide.web.timeline import drawn
from snaptide.web.visit import Visit, command

#: Seconds that a page waits for the sites that answer.
PATIENCE = 15.0
#: An address says so many characters at most.
MOST = 2_000
#: A value is cut after so many characters.
LONGEST = 600
#: The tooltip of the drawing is cut after so many.
TOOLTIP = 150
#: Bytes for the events, and for the rows of now.
ROOM, ROOM_OF_NOW = 24_000, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The row that a user looks for."""

    table: str
    master: str
    #: values in the order of the key, or COLUMN=VALUE
    lines: tuple[str, ...]
    #: columns and values, as links name them
    named: tuple[tuple[str, str], ...]

    @property
    def key(self) -> Sequence[str] | Mapping[str, str]:
        """The key, as `deferred.history` takes it."""
        return dict(self.named) if self.named else key_of(self.lines)

    @property
    def texts(self) -> Sequence[str]:
        """The key as people write it."""
        return [f"{name}={value}" for name, value in self.named] or self.lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An event as a line of the page."""

    event: Event
    what: str
    values: str
    #: the page that shows more of it
    more: str


def read(visit: Visit) -> Mapping[str, Any]:
    """The form, and the history if the address names a row."""
    wanted = _wanted(visit)
    found: dict[str, Any] = {"told": None, "problems": {}, "problem": None}
    if wanted.table and wanted.texts:
        try:
            found |= _found(visit, wanted)
        except SnaptideError as error:
            found["problem"] = error
    told = found["told"]
    key = _key(wanted, told)
    lines = [line(event) for event in reversed(told.events)] if told else []
    also = [(n, v) for n, v in visit.request.query_params.multi_items() if n != "from"]
    return {
        **found,
        "problems": problems_of(found["problems"]),
        "wanted": wanted,
        "key": key,
        "late": told is None and not found["problem"] and bool(wanted.texts),
        "patience": PATIENCE,
        "longest": LONGEST,
        "lines": listed(
            lines, _texts, start=start_of(visit), room=ROOM, longest=LONGEST
        ),
        "drawing": Markup(drawn(told.events, _words_of) if told else ""),
        "drawn": DRAWN,
        "now": listed(
            told.now if told else [],
            lambda one: (one.site, one.name, row_of(one.row)),
            room=ROOM_OF_NOW,
            longest=LONGEST,
        ),
        "row_of": row_of,
        "also": also,
        "command": command("history", *_words(wanted, key)),
    }


def line(event: Event) -> Line:
    """An event in words."""
    page = {"parked": "errors", "settled": "conflicts"}.get(event.kind)
    more = f"/sites/{event.site}/{page}/{event.number}"
    return Line(
        event=event,
        what=what(event, shown),
        values=values(event),
        more=more if page and event.number is not None else "",
    )


def _words_of(event: Event) -> str:
    """An event in the tooltip of its mark."""
    return shown(f"{shown(event.at)} {event.site}: {what(event, shown)}", TOOLTIP)


def _wanted(visit: Visit) -> Wanted:
    """The row that the address names, by the form or by a link.

    Raises:
        PageMissing: it says more than a page has room for.
    """
    query = visit.request.query_params
    if sum(len(name) + len(value) for name, value in query.multi_items()) > MOST:
        raise PageMissing("The key is too long for a page: snaptide history takes it.")
    columns, given = query.getlist("column"), query.getlist("value")
    return Wanted(
        table=visit.query("table"),
        master=visit.query("master"),
        lines=_lines(query.get("key", "")),
        named=tuple(zip(columns, given, strict=False)),
    )


def _lines(text: str) -> tuple[str, ...]:
    """The lines of a text as a browser sends it."""
    text = text.replace("\r\n", "\n").removesuffix("\n")
    return tuple(text.split("\n")) if text else ()


def _found(visit: Visit, wanted: Wanted) -> dict[str, Any]:
    """The history by the sites that answer, and what the others say."""
    sites = visit.console.sites
    answers = visit.console.questions.ask_all(sites, "here", _here)
    problems = {name: one.error for name, one in answers.items() if one.error}
    up = [sites[name] for name in sites if name not in problems]
    if not up:
        return {"problems": problems, "problem": SiteUnreachable("No site answers.")}

    def tell(_: Site) -> History:
        master = wanted.master or None
        return deferred.history(up, wanted.table, wanted.key, master=master)

    key = ("history", wanted, tuple(problems))
    asked = visit.console.examinations.begin(up[0], key, tell)
    wait([asked], timeout=PATIENCE)
    if not asked.done():
        return {"problems": problems}
    answer = asked.result()
    if answer.value is not None:
        for name in answer.value.away:
            left = f"Site {name} has stopped answering."
            problems[name] = SiteUnreachable(left, site=name)
    return {"told": answer.value, "problems": problems, "problem": answer.error}


def _here(site: Site) -> bool:
    with asking(site) as connection:
        return bool(connection.scalar(select(1)))


def _key(wanted: Wanted, told: History | None) -> Sequence[str]:
    """The key as people write it, in order if its columns cannot be written."""
    named = dict(wanted.named)
    if told and named and not all(map(str.isidentifier, named)):
        return [named[name] for name in told.key_columns]
    return wanted.texts


def _words(wanted: Wanted, key: Sequence[str]) -> Sequence[str]:
    """The row as arguments of the command."""
    option = ["--master", wanted.master] if wanted.master else []
    row = [wanted.table or "TABLE", *(key or ["KEY"])]
    dashed = any(word.startswith("-") for word in row)
    return [*option, *(["--"] if dashed else []), *row]


def _texts(one: Line) -> Iterable[object]:
    event = one.event
    return (event.at, event.site, event.user, one.what, one.values, one.more)


PAGE = Page(path="/history", template="history.html", read=read)
