"""Values as text that the database reads."""

import pytest

from sites.values import array_text


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
