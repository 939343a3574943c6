"""Rows whose conflicts are alike are settled together, as they would be one by one.

The same changes are pushed twice, with rows that are alike together and with each row
by itself. Values are few, and of types whose equal values may differ: 1.0 and 1.00, 0
and -0, a day and 24 hours. What is left has to be the same to the letter.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import deferred
from masters.apply.settlement import Settlement
from masters.resolution import routines
from masters.resolution.conflict import Conflict, Decision, Resolution
from masters.resolution.extremes import Maximum
from masters.rules import rulebook
from sites import Directory, Site
from tests.linked_table import as_refresh, link, run

#: Type of each column, its method, and the values that both sides give it.
COLUMNS: dict[str, tuple[str, str, Sequence[str]]] = {
    "digits": ("numeric", "additive", ["'1.0'", "'1.00'", "'2'", "'NaN'"]),
    "floating": ("double precision", "maximum", ["'-0'", "'0'", "'1'", "'NaN'"]),
    "whole": ("int", "average", ["'1'", "'2'", "NULL"]),
    "words": ("text", "minimum", ["'a'", "'a '", "'B'", "NULL"]),
    "padded": ("character(4)", "maximum", ["'a'", "'b'"]),
    "blank": ("bpchar", "maximum", ["'a'", "'a '", "'b'"]),
    "span": ("interval", "maximum", ["'1 day'", "'24:00'", "'2 days'"]),
    "label": ("kind", "maximum", ["'x'", "'y'"]),
    "bounded": ("small", "minimum", ["'1'", "'2'", "'3'"]),
    "document": ("json", "discard", ["'{}'", "'{ }'", "NULL"]),
    "stamp": (
        "timestamptz",
        "latest_timestamp",
        ["'infinity'", "'2026-01-01'", "'2026-01-02'", "'20000-01-01'", "NULL"],
    ),
}
ROWS = 80
ROUTINE = "asked_in_order"
NAMED = {"minimum", "maximum", "latest_timestamp"}


@pytest.fixture
def worlds(make_sites: Callable[..., Directory]) -> list[Directory]:
    """Two masters with a site each, alike."""
    made = [make_sites("hq", "jfk"), make_sites("hq", "jfk")]
    types = ", ".join(f"{name} {of[0]}" for name, of in COLUMNS.items())
    for sites in made:
        for site in sites.values():
            run(
                site,
                "CREATE TYPE kind AS ENUM ('y', 'x')",
                "CREATE DOMAIN small AS int CHECK (VALUE < 10)",
            )
        link(sites, "items", f"id int PRIMARY KEY, {types}")
    return made


@pytest.mark.parametrize("backup", [True, False], ids=["settled", "parked"])
@pytest.mark.parametrize("seed", range(3))
def test_together_as_one_by_one(
    worlds: list[Directory], monkeypatch: pytest.MonkeyPatch, seed: int, backup: bool
) -> None:
    """With a backup behind each method all is settled, without one all is parked."""
    left = []
    for sites, alike in zip(worlds, (True, False), strict=True):
        _rule(sites, *({name: "overwrite"} for name in COLUMNS if backup))
        _happen(sites, random.Random(seed))
        with monkeypatch.context() as patch:
            patch.setattr("masters.apply.images.CHUNK", 7)
            patch.setattr("masters.apply.images.ALIKE", 33)
            if not alike:
                patch.setattr(Settlement, "_may_be_alike", lambda *_: False)
            report = deferred.push(sites["jfk"])
        assert report.errors == (0 if backup else 1)
        left.append((_left(sites["hq"]), report.conflicts_resolved))
    assert left[0] == left[1]


def test_methods_are_asked_once_about_rows_alike(
    worlds: list[Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = worlds[0]
    _rule(sites)
    asked = []

    def counted(self: Maximum, conflict: Conflict) -> Resolution:
        asked.append(conflict)
        return Resolution(decision=Decision.SITE_WINS, reason="counted")

    monkeypatch.setattr(Maximum, "__call__", counted)
    _fill(sites, "label = 'y', whole = id")
    run(sites["hq"], "UPDATE items SET label = 'x'")
    run(sites["jfk"], "UPDATE items SET label = NULL")
    assert deferred.push(sites["jfk"]).conflicts_resolved == ROWS
    assert len(asked) == 1
    found = "SELECT DISTINCT label::text FROM items"
    assert run(sites["hq"], found) == [(None,)]
    recorded = "SELECT count(DISTINCT row_key), min(reason) FROM snaptide.{}"
    assert run(sites["hq"], recorded.format("resolution_record")) == [(ROWS, "counted")]


def test_routines_are_asked_about_each_row_in_order(worlds: list[Directory]) -> None:
    sites = worlds[0]
    asked = []

    def decide(conflict: Conflict) -> Resolution:
        assert conflict.new is not None
        asked.append(conflict.new["id"])
        return Resolution(decision=Decision.MASTER_WINS, reason="asked")

    routines.register(ROUTINE, decide)
    try:
        _rule(sites, {"label": ROUTINE}, first=True)
        _fill(sites, "label = 'y'")
        run(sites["hq"], "UPDATE items SET label = 'x'")
        run(sites["jfk"], "UPDATE items SET label = NULL")
        assert deferred.push(sites["jfk"]).conflicts_resolved == ROWS
    finally:
        routines.REGISTRY.forget(ROUTINE)
    assert asked == list(range(1, ROWS + 1))


def _rule(sites: Directory, *others: dict[str, str], first: bool = False) -> None:
    """Give each column its method, and some another one before or behind it."""
    update = [_by(name, method) for name, (_, method, _) in COLUMNS.items()]
    more = [_by(name, method) for one in others for name, method in one.items()]
    book = {
        "groups": {name: [name] for name in COLUMNS},
        "update": more + update if first else update + more,
    }
    rulebook.apply(sites["hq"], {"tables": {"items": book}})


def _by(name: str, method: str) -> dict[str, Any]:
    if method == ROUTINE:
        given = {"routine": ROUTINE}
        return {"group": name, "method": "custom", "parameters": given}
    given = {"column": name} if method in NAMED else {}
    return {"group": name, "method": method, "parameters": given}


def _fill(sites: Directory, values: str) -> None:
    for site in sites.values():
        as_refresh(
            site,
            f"INSERT INTO items (id) SELECT g FROM generate_series(1, {ROWS}) g",
            f"UPDATE items SET {values}",
        )


def _happen(sites: Directory, chance: random.Random) -> None:
    """Rows of few values at both sides, then the master and the site change each."""
    before, theirs, mine = (
        [[chance.choice(of[2]) for of in COLUMNS.values()] for _ in range(ROWS)]
        for _ in range(3)
    )
    for site in sites.values():
        as_refresh(site, f"INSERT INTO items VALUES {_numbered(before)}")
    run(sites["hq"], _change(theirs))
    run(sites["jfk"], _change(mine))


def _change(values: list[list[str]]) -> str:
    """A statement that gives rows their values, in their order on the disk."""
    names = ", ".join(COLUMNS)
    cast = ", ".join(f"v.{name}::{of[0]}" for name, of in COLUMNS.items())
    rows = f"(VALUES {_numbered(values)}) v (id, {names})"
    found = f"SELECT {cast} FROM {rows} WHERE v.id = items.id"
    return f"UPDATE items SET ({names}) = ({found})"


def _numbered(values: list[list[str]]) -> str:
    lines = (f"({n}, {', '.join(row)})" for n, row in enumerate(values, 1))
    return ", ".join(lines)


def _left(hq: Site) -> list[Any]:
    return [
        run(hq, "SELECT t::text FROM items t ORDER BY id"),
        run(
            hq,
            "SELECT call_no, row_key, kind, reference, sequence_no, method, decision,"
            " columns, reason, number, old_values, new_values, current_values,"
            " result_values FROM snaptide.resolution_record ORDER BY id",
        ),
        run(hq, "SELECT reason, error_message FROM snaptide.error_transaction"),
        run(
            hq,
            "SELECT call_no, kind, old_values, new_values, current_values, conflict"
            " FROM snaptide.error_call ORDER BY call_no",
        ),
    ]
