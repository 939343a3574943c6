"""A settled conflict: its rows side by side, the rule that decided, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from masters.analysis.records import Resolved, RulesVersion, show_resolution
from snaptide import toml
from snaptide.web.listed import listed, start_of
from snaptide.web.page import Page
from snaptide.web.pages.conflicts import line
from snaptide.web.visit import Visit, command

#: A value is cut after so many characters: a row may have many.
LONGEST = 1_000
#: So many bytes of a page are for the rows, and characters for the rules.
ROOM, LONGEST_RULES = 40_000, 3_000

SIDES = ("old", "new", "current", "result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the rows, with its value in each of them.

    A side that has no row, or not this column in it, is left out.
    """

    name: str
    values: Mapping[str, str | None]

    @property
    def differs(self) -> bool:
        """Whether old, new and current are not one value."""
        return len({v for side, v in self.values.items() if side != "result"}) > 1


def read(visit: Visit) -> Mapping[str, Any]:
    """The conflict with the rules of its time."""
    number = visit.number("id")
    show = partial(show_resolution, number=number)
    record, rules = visit.ask(("conflict", number), show)
    site = visit.site.name
    return {
        "record": record,
        "line": line(record),
        "sides": [side for side in SIDES if _image(record, side) is not None],
        "columns": listed(
            _columns(record),
            lambda column: (column.name, *(column.values.get(side) for side in SIDES)),
            start=start_of(visit),
            room=ROOM,
            longest=LONGEST,
        ),
        "longest": LONGEST,
        "history": _history(record),
        "rules": rules,
        "document": _document(record, rules),
        "longest_rules": LONGEST_RULES,
        "export": f"{command('rules', 'export', site)} > rules.toml",
        "replay": command(
            "conflicts", "replay", site, "--rules", "rules.toml", "--since", number - 1
        ),
        "command": command("conflicts", "show", site, number),
    }


def _columns(record: Resolved) -> Sequence[Column]:
    """The columns of the rows; those that differ first."""
    images = {side: _image(record, side) for side in SIDES}
    names = dict.fromkeys(name for image in images.values() for name in image or ())
    made = [
        Column(
            name=name,
            values={s: i[name] for s, i in images.items() if i and name in i},
        )
        for name in names
    ]
    return sorted(made, key=lambda column: not column.differs)


def _history(record: Resolved) -> str:
    """The address of the row's history."""
    row = [(n, v) for n, v in record.row_key.items() if v is not None]
    pairs = [("table", line(record).table)]
    pairs += [pair for n, v in row for pair in (("column", n), ("value", v))]
    return "/history?" + urlencode(pairs)


def _image(record: Resolved, side: str) -> Mapping[str, str | None] | None:
    found: Mapping[str, str | None] | None = getattr(record, f"{side}_values")
    return found


def _document(record: Resolved, rules: RulesVersion | None) -> str:
    """The rules of the table when one of them decided, as a file has them."""
    table = line(record).table
    tables = rules.rules.get("tables") if rules else None
    found = tables.get(table) if isinstance(tables, Mapping) else None
    return toml.written({"tables": {table: found}}).strip() if found else ""


PAGE = Page(
    path="/sites/{site}/conflicts/{id:int}", template="conflict.html", read=read
)
