"""The order in which tables are written, and where unique values are parked."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sites.errors import NoFreeValue
from sites.writing.unique_values import parking_column
from sites.writing.write import parents_first
from tests.unit.tables import column, staged, table, unique


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({"a": [], "b": [], "c": []}, "abc"),
        ({"a": ["b"], "b": ["c"], "c": []}, "cba"),
        ({"a": ["a"], "b": ["a"]}, "ab"),
        ({"a": ["a"], "b": []}, "ab"),
        ({"c": ["a", "b"], "b": ["a"], "a": []}, "abc"),
        ({"a": ["elsewhere"], "b": []}, "ab"),
        ({"a": ["b"], "b": ["a"]}, "ab"),
        ({"d": ["a"], "a": ["b"], "b": ["a"], "c": []}, "cadb"),
        ({"c": ["a", "d"], "d": ["c"], "a": ["b"], "b": ["a"]}, "abcd"),
    ],
    ids=[
        "none",
        "chain",
        "itself",
        "itself alone",
        "diamond",
        "not among them",
        "cycle",
        "below one",
        "cycle below one",
    ],
)
def test_parents_come_first(parents: dict[str, Sequence[str]], expected: str) -> None:
    tables = [table(name, parents=above) for name, above in parents.items()]
    ordered = [name.name for name in parents_first(tables)]
    assert "".join(ordered) == expected


@pytest.mark.parametrize(
    ("columns", "spot"),
    [
        ([("name", "text", True)], "name"),
        ([("name", "text", False)], "name"),
        ([("day", "date", False), ("n", "integer", False)], "n"),
        ([("n", "integer", False), ("day", "date", True)], "day"),
        ([("id", "integer", False), ("day", "date", True)], "day"),
        ([("id", "integer", False), ("day", "date", False)], None),
        ([("day", "date", False)], None),
        ([("code", "character varying(3)", False)], "code"),
    ],
)
def test_column_that_is_parked(
    columns: list[tuple[str, str, bool]], spot: str | None
) -> None:
    key = unique("u", *(name for name, _, _ in columns))
    described = replace(
        table("t"),
        columns=tuple(
            column(name, number, kind, nullable=nullable)
            for number, (name, kind, nullable) in enumerate(columns, 1)
        ),
        uniques=(key,),
    )
    if spot is None:
        with pytest.raises(NoFreeValue):
            parking_column(described, key, ["id"])
    else:
        assert parking_column(described, key, ["id"]).name == spot


def test_keys_that_can_move() -> None:
    described = replace(
        table("t"),
        uniques=(
            unique("t_pkey", "id", primary=True),
            unique("name_key", "name"),
            unique("more_than_the_key", "id", "name"),
            replace(unique("later", "price"), deferrable=True),
        ),
    )
    assert [key.name for key in staged(described).breakable(at_once=True)] == [
        "name_key"
    ]
    partial = replace(staged(described), columns=("id", "price", "doc"))
    assert partial.breakable(at_once=True) == []
