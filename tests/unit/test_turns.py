"""What CI leaves out of tests of many values comes at another commit."""

from tests.turns import PARTS, left_out

FEW = ["a.py::test_two[1]", "a.py::test_two[2]", "a.py::test_alone"]
MANY = [f"b.py::test_of_{n}[{i}]" for n in (3, 4, 11) for i in range(n)]


def test_all_are_played_in_turn() -> None:
    played = [{*FEW, *MANY} - left_out([*FEW, *MANY], turn) for turn in range(PARTS)]
    assert set.union(*played) == {*FEW, *MANY}
    assert set.intersection(*played) == set(FEW)
    for each in played:
        assert {one.partition("[")[0] for one in each} == {
            one.partition("[")[0] for one in (*FEW, *MANY)
        }


def test_a_turn_is_a_third_of_the_values() -> None:
    for turn in range(PARTS):
        played = len(MANY) - len(left_out(MANY, turn))
        assert abs(played - len(MANY) / PARTS) < len(MANY) / 10
