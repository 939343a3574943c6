"""Tables and columns of every name and shape, through push and every refresh."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import deferred
import snapshots
from sites import Directory
from sites.names import quoted
from snapshots.differences import comparison
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

LONGEST = "x" * 63
ODD = (
    "Mixed Case",
    "select",
    "ünï🌊",
    'quo"ted""',
    "a.b",
    "50%s %(x)s %%",
    "back\\slash",
    "it's; -- :x",
    LONGEST,
    "é" * 31,
)


@dataclass(frozen=True)
class Shape:
    """A table: its name as SQL and as users write it, its columns, its key."""

    schema: str
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def create(self) -> str:
        columns = ", ".join(f"{quoted(c)} text" for c in self.columns)
        key = ", ".join(map(quoted, self.key))
        return f"CREATE TABLE {self.sql} ({columns}, PRIMARY KEY ({key}))"

    def insert(self, row: str) -> str:
        values = ", ".join(f"'{row}{n}'" for n in range(len(self.columns)))
        return f"INSERT INTO {self.sql} VALUES ({values})"

    def update(self, row: str, value: str) -> str:
        """Sets all columns that are no key, or the key if there are no others.

        Two such images of 200 columns are more than a page holds.
        """
        rest = [c for c in self.columns if c not in self.key] or self.key[-1:]
        values = ", ".join(f"{quoted(c)} = '{value:.<22}'" for c in rest)
        return f"UPDATE {self.sql} SET {values} WHERE {quoted(self.key[0])} = '{row}0'"

    def delete(self, row: str) -> str:
        return f"DELETE FROM {self.sql} WHERE {quoted(self.key[0])} = '{row}0'"


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"c{n}" for n in range(count))


SHAPES = (
    *(Shape("public", name, ("id", *ODD), ("id",)) for name in ODD),
    Shape("My.Schema", "t", ODD, ODD[:1]),
    Shape("My", "Schema.t", ODD, ODD[:1]),
    Shape("public", "t", ("k", "v"), ("k",)),
    Shape("other", "t", ("k", "v"), ("k",)),
    Shape("public", "wide", _numbered(200), ("c0", "c199")),
    Shape(
        "public",
        "deep",
        tuple(f"c{n}" for n in range(10)),
        tuple(f"c{n}" for n in range(8)),
    ),
    Shape("public", "key only", ("a", "b", "c"), ("a", "b", "c")),
)


@pytest.mark.timeout(900)
def test_every_name_and_shape(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, *(f'CREATE SCHEMA "{s}"' for s in ("My.Schema", "My", "other")))
    for shape in SHAPES:
        run(hq, shape.create(), *(shape.insert(row) for row in "abcd"))
        log(hq, shape.sql)
        snapshots.create(jfk, shape.sql, master="hq", group="all", updatable=True)
    refresh(jfk, "all")
    assert_equal_to_master(jfk)

    for shape in SHAPES:
        run(
            jfk,
            shape.update("a", "site"),
            shape.delete("b"),
            shape.insert("e"),
        )
    assert deferred.push(jfk).errors == 0
    for shape in SHAPES:
        run(hq, shape.update("c", "hq"), shape.delete("d"), shape.insert("f"))
    refresh(jfk, "all", allow_mass_delete=True)
    assert_equal_to_master(jfk)

    monkeypatch.setattr(comparison, "SMALL_WINDOW", 0)
    for shape in (SHAPES[0], SHAPES[-3]):
        run(hq, shape.update("e", "large"), shape.delete("f"))
    refresh(jfk, "all", allow_mass_delete=True)
    assert_equal_to_master(jfk)

    # Both sides change a row: the conflict names table and columns as they are.
    for shape in SHAPES:
        run(hq, shape.update("e", "theirs"))
        run(jfk, shape.update("e", "mine"))
    assert deferred.push(jfk).errors == len(SHAPES)
    for error in deferred.list_errors(hq):
        call = deferred.show_error(hq, error.id).calls[0]
        assert set(call.old or call.new or {}) in [
            set(shape.columns) for shape in SHAPES
        ]
