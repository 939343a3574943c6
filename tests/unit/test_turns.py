"""What CI leaves out of tests of several values comes at another commit."""

from math import lcm

from tests.turns import PARTS, left_out

ALONE = ["a.py::test_alone", "a.py::test_of_one[1]"]
SEVERAL = [f"b.py::test_of_{n}[{i}]" for n in (2, 3, 4, 11) for i in range(n)]
COMMITS = range(lcm(*range(1, PARTS + 1)))


def test_all_are_played_in_turn() -> None:
    tests = {*ALONE, *SEVERAL}
    played = [tests - left_out(tests, commit) for commit in COMMITS]
    assert set.union(*played) == tests
    assert set.intersection(*played) == {*ALONE}
    for each in played:
        assert _names(each) == _names(tests)


def test_a_turn_is_a_third_of_the_values() -> None:
    for commit in COMMITS:
        played = len(SEVERAL) - len(left_out(SEVERAL, commit))
        assert abs(played - len(SEVERAL) / PARTS) < len(SEVERAL) / 10


def _names(tests: set[str]) -> set[str]:
    return {one.partition("[")[0] for one in tests}
