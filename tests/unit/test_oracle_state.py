"""What a run of the oracle notes, so that it can be stopped and go on."""

from collections import Counter
from pathlib import Path

import pytest

from tests.oracle.checks import world
from tests.oracle.checks.play import GAME
from tests.oracle.runner.played import Played
from tests.oracle.runner.state import State


def played(number: int, **counts: int) -> Played:
    return Played(
        number=number,
        kind="checks",
        histories=5,
        met=Counter({"parked": number}),
        counts=Counter({getattr(world, name): n for name, n in counts.items()}),
        violations=[],
        story="",
    )


def test_counts_of_all_worlds_are_told_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    State(path, seed=7).add(played(1, PUSHED=30, CONFLICTS=2, ROWS=20))
    again = State(path, seed=7)
    again.add(played(3, PUSHED=10, CONFLICTS=2, ROWS=20))
    assert (again.histories, again.met()) == (10, Counter({"parked": 4}))
    assert again.left(20, 5) == [2, 4]
    assert GAME.told is not None
    said = "40 planted; 40 transactions pushed, 4 of them (10.0%) in conflict"
    assert GAME.told(again.counts()) == said


def test_a_run_of_another_seed_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    State(path, seed=7)
    with pytest.raises(SystemExit, match="another seed"):
        State(path, seed=8)
