"""What waits at a site for a destination: transactions in their order, and calls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import deferred
from sites import Site
from snaptide.waiting import calls_of, waiting
from snaptide.web.errors import PageMissing
from snaptide.web.listed import AT_ONCE, listed, start_of
from snaptide.web.page import Page
from snaptide.web.pages.parked import KINDS
from snaptide.web.visit import Visit, command

#: A value is cut after so many characters.
LONGEST = 1_000


def read(visit: Visit) -> Mapping[str, Any]:
    """The transactions for one destination, and the names of the others."""
    site, start = visit.site.name, start_of(visit)
    names = visit.ask("destinations", _destinations)
    to = visit.query("to") or (names[0] if names else "")
    found = None
    if to:
        ask = partial(waiting, name=to, limit=AT_ONCE, offset=start)
        found = visit.ask(("queue", to, start), ask)
    return {
        "to": to,
        "others": [name for name in names if name != to],
        "queue": found,
        "lines": listed(
            found.transactions if found else (),
            lambda one: (one.id, one.id, one.user, one.origin, one.after, one.after),
            start=start,
            total=found.total if found else 0,
        ),
        "to_push": command("push", site, to),
        "command": command("destination", "list", site),
    }


def read_calls(visit: Visit) -> Mapping[str, Any]:
    """The calls of one of the transactions.

    Raises:
        PageMissing: it has none for the destination, or not any more.
    """
    number, to, start = str(visit.number("id")), visit.query("to"), start_of(visit)
    ask = partial(calls_of, name=to, transaction=number, limit=AT_ONCE, offset=start)
    total, calls = visit.ask(("calls", number, to, start), ask)
    if not total:
        raise PageMissing(f"Transaction {number} has no calls here for {to[:100]!r}.")
    return {
        "to": to,
        "number": number,
        "calls": listed(
            calls,
            lambda one: (one.table, one.old, one.new),
            start=start,
            total=total,
            longest=LONGEST,
        ),
        "kinds": {**KINDS, "P": "procedure"},
        "longest": LONGEST,
        "command": command("destination", "list", visit.site.name),
    }


def _destinations(site: Site) -> list[str]:
    return [one.destination for one in deferred.list_destinations(site)]


_PATH = "/sites/{site}/queue"

PAGE = Page(path=_PATH, template="queue.html", read=read)

CALLS = Page(
    path=f"{_PATH}/{{id:int}}", template="queued_transaction.html", read=read_calls
)
