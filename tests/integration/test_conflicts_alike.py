"""Rows whose conflicts are alike are settled together, as they would be one by one.

The same changes are pushed twice, with rows that are alike together and with each row
by itself. Values are few, and of types whose equal values may differ: 1.0 and 1.00, 0
and -0, a day and 24 hours. What is left has to be the same to the letter.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import deferred
from masters.apply import detect
from masters.apply.images import Compared
from masters.apply.record import Records
from masters.apply.resolve import Resolver, RowResolution
from masters.apply.settlement import Settlement
from masters.resolution import routines
from masters.resolution.conflict import Conflict, Decision, Resolution
from masters.resolution.extremes import LatestTimestamp, Maximum
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
    "number": ("bigint", "minimum", ["'1'", "'2'", "'3'", "NULL"]),
    "amount": ("numeric", "minimum", ["'1.0'", "'1.00'", "'2'", "'NaN'"]),
    "day": ("date", "maximum", ["'infinity'", "'44-3-15 BC'", "'2026-1-1'", "NULL"]),
    "document": ("json", "discard", ["'{}'", "'{ }'", "NULL"]),
    "stamp": (
        "timestamptz",
        "latest_timestamp",
        ["'infinity'", "'2026-1-1'", "'2026-1-1 12:00:00.5'", "'20000-1-1'", "NULL"],
    ),
}
ROWS = 250
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
    left, asked = [], Counter[bool]()
    resolve = Resolver.resolve

    def counted(self: Resolver, *given: Any) -> RowResolution:
        asked[alike] += 1
        return resolve(self, *given)

    monkeypatch.setattr(Resolver, "resolve", counted)
    for sites, alike in zip(worlds, (True, False), strict=True):
        _rule(sites, *({name: "overwrite"} for name in COLUMNS if backup))
        _happen(sites, random.Random(seed))
        with monkeypatch.context() as patch:
            patch.setattr("masters.apply.images.CHUNK", 77)
            if not alike:
                patch.setattr(Settlement, "_may_be_alike", lambda *_: False)
            report = deferred.push(sites["jfk"])
        assert report.errors == (0 if backup else 1)
        left.append((_left(sites["hq"]), report.conflicts_resolved))
    assert left[0] == left[1]
    # The answer to rows without a rule's decision is asked for again, one by one.
    assert asked[True] < asked[False] or not backup


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


def test_methods_that_compare_are_asked_once_about_each_order(
    worlds: list[Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row has a stamp of its own; its reason names it."""
    sites = worlds[0]
    _rule(sites)
    asked = []
    decide = LatestTimestamp.__call__

    def counted(self: LatestTimestamp, conflict: Conflict) -> Resolution:
        asked.append(conflict)
        return decide(self, conflict)

    monkeypatch.setattr(LatestTimestamp, "__call__", counted)
    _fill(sites, "stamp = '2026-01-01'")
    change = "UPDATE items SET stamp = '{}'::timestamptz + id % {} * '1 day'::interval"
    run(sites["hq"], change.format("2026-02-01", 4))
    run(sites["jfk"], change.format("2026-02-02", 3))
    run(sites["hq"], "UPDATE items SET stamp = stamp + id * '1 second'::interval")
    assert deferred.push(sites["jfk"]).conflicts_resolved == ROWS
    assert len(asked) == 2
    found = run(
        sites["hq"],
        "SELECT reason, 'stamp: ' || (new_values ->> 'stamp') || ' against '"
        " || (current_values ->> 'stamp'), decision, result_values ->> 'stamp'"
        " = greatest(new_values ->> 'stamp', current_values ->> 'stamp')"
        " FROM snaptide.resolution_record",
    )
    assert {told == expected for told, expected, *_ in found} == {True}
    assert len({told for told, *_ in found}) == ROWS
    assert {(one[2], one[3]) for one in found} == {
        ("site_wins", True),
        ("master_wins", True),
    }


def test_distant_times_are_in_the_order_in_which_methods_see_them(
    worlds: list[Directory],
) -> None:
    """Python has one value for the year 20000 and infinity: they are a tie."""
    sites = worlds[0]
    _rule(sites, {"stamp": "overwrite"})
    _fill(sites, "stamp = '2026-01-01'")
    change = (
        "UPDATE items SET stamp ="
        " CASE id % 2 WHEN 0 THEN '{}' ELSE '{}' END::timestamptz"
    )
    run(sites["hq"], change.format("2026-03-01", "infinity"))
    run(sites["jfk"], change.format("2026-02-01", "20000-01-01"))
    assert deferred.push(sites["jfk"]).conflicts_resolved == ROWS
    counted = (
        "SELECT method, decision, count(*) FROM snaptide.resolution_record"
        " GROUP BY 1, 2 ORDER BY 1"
    )
    assert run(sites["hq"], counted) == [
        ("latest_timestamp", "master_wins", ROWS // 2),
        ("overwrite", "site_wins", ROWS // 2),
    ]


@pytest.mark.parametrize("missing", [False, True])
def test_a_few_rows_in_conflict_are_looked_up(
    worlds: list[Directory], monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    """Others agreed when they were locked. If rows are missing, all are looked at."""
    left, looked_at = [], []
    look = detect.detect

    def noted(*given: Any, calls: int, **others: Any) -> Any:
        looked_at.append(calls)
        return look(*given, calls=calls, **others)

    monkeypatch.setattr(detect, "detect", noted)
    for sites, few in zip(worlds, (4, ROWS), strict=True):
        monkeypatch.setattr(detect, "FEW", few)
        update = [_by("whole", "average"), _by("number", "minimum")]
        groups = {"whole": ["whole"], "number": ["number"]}
        rules = {"groups": groups, "update": update, "delete": [{"method": "ignore"}]}
        rulebook.apply(sites["hq"], {"tables": {"items": rules}})
        _fill(sites, "whole = id, number = id")
        change = "UPDATE items SET whole = 7, number = id % 3 + 5 WHERE id % 50 = 1"
        run(sites["hq"], change, "DELETE FROM items WHERE id = 3" if missing else "")
        run(
            sites["jfk"],
            "UPDATE items SET whole = id + 4, number = 2",
            "DELETE FROM items WHERE id BETWEEN 40 AND 52",
            "INSERT INTO items (id, number) VALUES (1000, 1)",
        )
        report = deferred.push(sites["jfk"])
        assert (report.errors, report.conflicts_resolved) == (0, 9 + missing)
        left.append(_left(sites["hq"]))
    assert left[0] == left[1]
    every = ROWS + 1
    assert looked_at == [every if missing else 5, every]


@pytest.mark.parametrize("size", [77, ROWS])
def test_rows_told_apart_by_an_order_alone_come_as_a_few(
    worlds: list[Directory], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A chunk of them is one statement for each of what becomes of them."""
    sites = worlds[0]
    rule = {"method": "latest_timestamp", "parameters": {"column": "stamp"}}
    book = {"groups": {"at": ["stamp"]}, "update": [{"group": "at", **rule}]}
    rulebook.apply(sites["hq"], {"tables": {"items": book}})
    monkeypatch.setattr("masters.apply.alike.MANY", size)
    monkeypatch.setattr("masters.apply.images.CHUNK", 10)
    written: list[int] = []
    write = Records.write

    def counted(self: Records, compared: Compared, rows: Any, *, again: bool) -> None:
        written.append(len(rows))
        write(self, compared, rows, again=again)

    monkeypatch.setattr(Records, "write", counted)
    _fill(sites, "stamp = '2026-01-01'")
    change = "UPDATE items SET stamp = now() + (id % {} - 3) * interval '1 day'"
    run(sites["hq"], change.format(5))
    run(sites["jfk"], change.format(7))
    run(sites["hq"], "UPDATE items SET stamp = stamp + id * interval '1 second'")
    assert deferred.push(sites["jfk"]).conflicts_resolved == ROWS
    assert written == [2] * -(-ROWS // size)
    found = run(
        sites["hq"],
        "SELECT count(*), bool_and(decision = CASE"
        " WHEN (new_values ->> 'stamp')::timestamptz"
        " > (current_values ->> 'stamp')::timestamptz"
        " THEN 'site_wins' ELSE 'master_wins' END),"
        " bool_and(stamp::text = result_values ->> 'stamp')"
        " FROM snaptide.resolution_record JOIN items t"
        " ON t.id::text = row_key ->> 'id'",
    )
    assert found == [(ROWS, True, True)]


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
    """Rows of few values, then the master and the site change one or two of each."""
    before = [[chance.choice(of[2]) for of in COLUMNS.values()] for _ in range(ROWS)]
    theirs, mine = ([*map(list, before)] for _ in range(2))
    for n in range(ROWS):
        for place in chance.choices(range(len(COLUMNS)), k=1 + n // 230):
            values = [*COLUMNS.values()][place][2]
            theirs[n][place], mine[n][place] = chance.choices(values, k=2)
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
