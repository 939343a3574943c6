"""How a check divides tables into parts that one statement reads."""

import pytest

from sites import QualifiedName
from sites.conditions.ranges import Range
from snapshots.check import reader


@pytest.fixture(autouse=True)
def _parts_of_ten_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PART_PAGES", 10)


def leaf(name: str) -> QualifiedName:
    return QualifiedName("public", name)


def test_a_small_table_is_read_whole() -> None:
    whole = Range(table=leaf("t"))
    assert list(reader.divided([(leaf("t"), 10)])) == [([whole], 10)]
    # An empty one has no pages, nor has one that stores its rows elsewhere.
    assert list(reader.divided([(leaf("t"), 0)])) == [([whole], 1)]


def test_the_last_part_of_a_large_table_has_no_end() -> None:
    found = list(reader.divided([(leaf("t"), 25)]))
    assert found == [
        ([Range(table=leaf("t"), first=0, end=10)], 10),
        ([Range(table=leaf("t"), first=10, end=20)], 10),
        ([Range(table=leaf("t"), first=20)], 5),
    ]


def test_small_partitions_are_read_together() -> None:
    leaves = [(leaf(f"p{n}"), 4) for n in range(7)]
    found = list(reader.divided(leaves))
    assert [(len(parts), pages) for parts, pages in found] == [(3, 12), (3, 12), (1, 4)]
    assert [part.table for parts, _ in found for part in parts] == [
        n for n, _ in leaves
    ]


def test_no_partitions_are_no_parts() -> None:
    assert list(reader.divided([])) == []
