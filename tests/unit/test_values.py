"""Values as text that the database reads."""

import pytest

from sites.transfer.values import Numbers, array_text, unsized


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "{}"),
        ([1, None, -2], "{1,NULL,-2}"),
        (["a", "", "NULL", None], '{"a","","NULL",NULL}'),
        (['"', "\\", "a,b", "{}"], '{"\\"","\\\\","a,b","{}"}'),
    ],
)
def test_array_text(values: list[object], text: str) -> None:
    assert array_text(values) == text


@pytest.mark.parametrize(
    ("name", "cast"),
    [
        ("integer", "integer"),
        ("numeric(10,2)", "numeric"),
        ("numeric(3,-2)", "numeric"),
        ("character varying(9)", "character varying"),
        ("timestamp(3) with time zone", "timestamp with time zone"),
        # Without a length these two would be one long.
        ("character(4)", "bpchar"),
        ("bit(3)", "bit varying"),
        ("integer[]", "integer[]"),
        ("numeric(10,2)[]", "numeric[]"),
        ("character(4)[]", "bpchar[]"),
        ("bit(3)[]", "bit varying[]"),
        ("bit(3)[][]", "bit varying[][]"),
    ],
)
def test_type_without_its_length(name: str, cast: str) -> None:
    assert unsized(name) == cast


@pytest.mark.parametrize("listed", [[], [7], [3, -1, 2**62]])
def test_numbers_are_read_from_the_text_of_an_array(listed: list[int]) -> None:
    numbers = Numbers.of(listed)
    assert array_text(numbers) == array_text(listed)
    assert (list(numbers), len(numbers)) == (listed, len(listed))
    assert list(Numbers.together([Numbers("{}"), numbers, numbers])) == listed * 2
    if listed:
        assert (numbers.first, numbers[-1]) == (listed[0], listed[-1])
