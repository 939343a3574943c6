"""The matrix of docs/reference/conflict-matrix.md, cell by cell."""

from pathlib import Path

import pytest

import deferred
from masters.rules import rulebook
from sites import Directory
from tests.linked_table import as_refresh, link, run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conflict-matrix.md"

METHODS = {
    "no rules": (None, None, None),
    "site wins": ("overwrite", "informix_always", "informix_always"),
    "master wins": ("discard", "discard", "ignore"),
}

SITE = {
    "insert": "INSERT INTO t VALUES ({id}, {site}, 'w')",
    "update": "UPDATE t SET v = {site} WHERE id = {id}",
    "delete": "DELETE FROM t WHERE id = {id}",
}

MASTER = {
    "nothing": [],
    "insert": ["INSERT INTO t VALUES ({id}, 'master', 'w')"],
    "update same column": ["UPDATE t SET v = 'master' WHERE id = {id}"],
    "update other column": ["UPDATE t SET w = 'other' WHERE id = {id}"],
    "update to the same value": ["UPDATE t SET v = {site} WHERE id = {id}"],
    "delete": [SITE["delete"]],
    "delete and insert again": [
        SITE["delete"],
        "INSERT INTO t VALUES ({id}, 'again', 'w')",
    ],
}


def cells() -> list[list[str]]:
    text = PAGE.read_text("utf-8").partition("## By method")[0]
    lines = [line for line in text.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_matrix_has_every_cell() -> None:
    have = {(site, master) for site, master, *_ in cells()}
    want = {(s, m) for s in SITE for m in MASTER if (s == "insert") == (m == "insert")}
    assert have == want | {("insert", "nothing")}


@pytest.mark.parametrize("value", ["'site'", "NULL"])
@pytest.mark.parametrize("methods", METHODS)
def test_every_cell_is_as_stated(sites: Directory, methods: str, value: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "t", "id int PRIMARY KEY, v text, w text")
    rulebook.apply(hq, _rules(*METHODS[methods]))
    column = 2 + list(METHODS).index(methods)
    table = list(enumerate(cells(), 1))
    for number, (site, *_) in table:
        if site != "insert":
            for one in sites.values():
                as_refresh(one, f"INSERT INTO t VALUES ({number}, 'old', 'w')")
    before = {}
    for number, (site, master, *_) in table:
        for statement in MASTER[master]:
            run(hq, statement.format(id=number, site=value))
        run(jfk, SITE[site].format(id=number, site=value))
        before[number] = _row(sites, number)
    deferred.push(jfk)
    parked = {
        int(str((call.old or call.new or {})["id"]))
        for error in deferred.list_errors(hq)
        for call in deferred.show_error(hq, error.id).calls
    }
    for number, cell in table:
        found, stated = _row(sites, number), cell[column]
        assert (number in parked) == (stated == "parked"), cell
        if stated == "parked":
            assert found == before[number], cell
        elif stated == "gone":
            assert found is None, cell
        else:
            v, w = stated.split(", ")
            wanted = None if v == "site" and value == "NULL" else v
            assert found == (wanted, w), cell


def _rules(
    update: str | None, unique: str | None, delete: str | None
) -> dict[str, object]:
    body: dict[str, object] = {"groups": {"v": ["v"], "w": ["w"]}}
    if update:
        body["update"] = [{"group": name, "method": update} for name in ("v", "w")]
        body["unique"] = [{"constraint": "t_pkey", "method": unique}]
        body["delete"] = [{"method": delete}]
    return {"tables": {"t": body}}


def _row(sites: Directory, number: int) -> tuple[object, ...] | None:
    found = run(sites["hq"], f"SELECT v, w FROM t WHERE id = {number}")
    return found[0] if found else None
