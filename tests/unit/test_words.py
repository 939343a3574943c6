"""Numbers of things in words."""

import pytest

from sites.words import counted, does


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 rows differ"), (1, "1 row differs"), (1000, "1,000 rows differ")],
)
def test_a_number_of_things(number: int, said: str) -> None:
    assert counted(number, "row", "differ") == said
    assert said.startswith(counted(number, "row"))


@pytest.mark.parametrize(
    ("several", "one"), [("are", "is"), ("were", "was"), ("have", "has")]
)
def test_what_they_do(several: str, one: str) -> None:
    assert does(1, several) == one
    assert does(0, several) == does(2, several) == several
