"""Who waits for whom, as people see it."""

import io

import pytest
from rich.console import Console

from deferred.parked.error_dependencies import Edge
from snaptide.cli.errors import trees


def drawn(number: int, *edges: tuple[int, int]) -> list[str]:
    made = io.StringIO()
    console = Console(file=made, width=60, color_system=None)
    found = [Edge(waiting=waiting, on=on) for waiting, on in edges]
    for tree in trees(number, found):
        console.print(tree)
    return made.getvalue().splitlines()


def test_chain() -> None:
    assert drawn(8, (8, 7), (9, 8)) == ["7", "└── 8 (this one)", "    └── 9"]


def test_one_that_waits_for_two_stands_below_both() -> None:
    lines = drawn(1, (3, 1), (3, 2), (4, 3))
    assert lines == ["1 (this one)", "└── 3", "    └── 4", "2", "└── 3"]


@pytest.mark.parametrize("length", [0, 2000])
def test_long_queue(length: int) -> None:
    edges = [(n + 1, 0) for n in range(length)]
    assert len(drawn(0, *edges)) == (length + 1 if length else 0)
