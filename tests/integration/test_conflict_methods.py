"""The table "By method" of docs/reference/conflict-matrix.md, cell by cell."""

from collections.abc import Iterator
from typing import Any

import deferred
from masters.resolution import METHODS, Kind
from masters.rules import rulebook
from sites import Directory
from tests.integration.test_conflict_matrix import PAGE
from tests.linked_table import as_refresh, link, run

COLUMNS = "id text PRIMARY KEY, n int, at timestamptz, w text"

#: What a rule is told, where it is told anything.
PARAMETERS: dict[str, dict[str, Any]] = {
    "minimum": {"column": "n"},
    "maximum": {"column": "n"},
    "earliest_timestamp": {"column": "at"},
    "latest_timestamp": {"column": "at"},
    "priority_group": {"column": "n", "priorities": {"15": 2, "7": 1}},
    "site_priority": {"priorities": {"jfk": 2, "hq": 1}},
    "append_site_name": {"column": "id"},
    "append_sequence": {"column": "id"},
    "informix_timestamp": {"column": "at"},
    "informix_delete_wins": {"column": "at"},
}

#: How the columns of the table begin: the site's operation, and the master's.
UPDATE = "UPDATE t SET {set} WHERE id = '{id}'"
DELETE = "DELETE FROM t WHERE id = '{id}'"
INSERT = "INSERT INTO t VALUES ('{id}', {values}, 'w')"
SITE = {"update": UPDATE, "delete": DELETE, "insert": INSERT}
MASTER = {
    "update": (UPDATE,),
    "update other column": ("UPDATE t SET w = 'other' WHERE id = '{id}'",),
    "update to the same value": (UPDATE,),
    "delete": (DELETE,),
    "delete and insert again": (DELETE, INSERT),
    "insert": (INSERT,),
    "insert and delete": (INSERT, DELETE),
}


def page() -> tuple[list[str], dict[str, list[str]]]:
    """The heads of the columns, and the cells of each method."""
    section = PAGE.read_text("utf-8").partition("## By method")[2].partition("## ")[0]
    head, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line[:1] == "|"
    )
    return head[1:], {name.strip("`"): cells for name, *cells in lines}


def written(method: str, n: str, year: int, *, null: bool) -> dict[str, str]:
    """The statements' parts that say what is written."""
    stamped = PARAMETERS.get(method, {}).get("column") == "at"
    at = f"'{year}-01-01'" if stamped else "'2001-01-01'"
    if null:
        n, at = (n, "NULL") if stamped else ("NULL", at)
    return {
        "values": f"{n}, {at}",
        "set": f"n = {n}, at = {at}" if stamped else f"n = {n}",
    }


def cells(method: str, heads: list[str]) -> Iterator[tuple[str, str, str, bool]]:
    """Key, site's operation, master's operation, and whether the site writes NULL."""
    for place, head in enumerate(heads):
        site, master = head.split(", ")
        for null in (False, True):
            if site != "delete" or not null:
                yield f"{method}{place}{null}", site, master, null


def rule(method: str) -> dict[str, Any]:
    """A table's rules: the method for all that it can settle."""
    one: dict[str, Any] = {"method": method, "parameters": PARAMETERS.get(method, {})}
    stamped = one["parameters"].get("column") == "at"
    kinds = METHODS[method].kinds
    body: dict[str, Any] = {"groups": {"g": ["n", "at"] if stamped else ["n"]}}
    if Kind.UPDATE in kinds:
        body["update"] = [{"group": "g", **one}]
    if Kind.UNIQUENESS in kinds:
        body["unique"] = [{"constraint": "t_pkey", **one}]
    if Kind.DELETE in kinds:
        body["delete"] = [one]
    return body


def test_every_method_has_its_line() -> None:
    heads, lines = page()
    assert lines.keys() == METHODS.keys() - {"custom"}
    assert all(len(line) == len(heads) for line in lines.values())
    assert {head.split(", ")[1] for head in heads} == MASTER.keys()


def test_every_cell_of_every_method_is_as_stated(sites: Directory) -> None:
    link(sites, "t", COLUMNS)
    heads, lines = page()
    for method in lines:
        rulebook.apply(sites["hq"], {"tables": {"t": rule(method)}})
        conflict(sites, method, list(cells(method, heads)))
        deferred.push(sites["jfk"])
    at_master = dict(run(sites["hq"], "SELECT id, n FROM t"))
    parked = run(
        sites["hq"],
        "SELECT coalesce(old_values, new_values) ->> 'id' FROM snaptide.error_call",
    )
    found: dict[str, list[str]] = {}
    for method in lines:
        said: dict[str, list[str]] = {}
        for key, site, master, _ in cells(method, heads):
            value = "parked" if (key,) in parked else at_master.get(key, "gone")
            said.setdefault(f"{site}, {master}", []).append(str(value))
        found[method] = [" / ".join(one) for one in said.values()]
    assert found == lines


def conflict(
    sites: Directory, method: str, tried: list[tuple[str, str, str, bool]]
) -> None:
    """The site changes each row in a transaction of its own, then the master all."""
    stock = ", ".join(
        f"('{key}', 10, '2001-01-01', 'w')"
        for key, site, *_ in tried
        if site != "insert"
    )
    for one in sites.values():
        as_refresh(one, f"INSERT INTO t VALUES {stock}")
    there: list[str] = []
    for key, site, master, null in tried:
        mine = written(method, "15", 2002, null=null)
        run(sites["jfk"], SITE[site].format(id=key, **mine))
        same = master == "update to the same value"
        values = mine if same else written(method, "7", 2003, null=False)
        there += [one.format(id=key, **values) for one in MASTER[master]]
    run(sites["hq"], *there)
