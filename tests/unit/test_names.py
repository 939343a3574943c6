"""Names as users write them, and those that are derived from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sites import names
from sites.errors import BadName
from sites.names import LIMIT, QualifiedName, divided, plain

ANY_NAME = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
)


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("orders", "public", "orders"),
        ("sales.orders", "sales", "orders"),
        ("Orders", "public", "Orders"),
        ('"My.Table"', "public", "My.Table"),
        ('sales."My ""T"""', "sales", 'My "T"'),
        ('"a"."b"', "a", "b"),
        ("a b", "public", "a b"),
        ("x;drop table y", "public", "x;drop table y"),
    ],
)
def test_name_is_read_as_written(text: str, schema: str, name: str) -> None:
    assert names.parse(text) == QualifiedName(schema, name)


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a.b.c", '"a', 'a"', '""', '"a"b', "a\0b"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        names.parse(text)


@given(schema=ANY_NAME, name=ANY_NAME)
def test_name_is_read_as_shown(schema: str, name: str) -> None:
    written = QualifiedName(schema, name)
    quoted = f"{names.quoted(schema)}.{names.quoted(name)}"
    assert names.parse(quoted) == written


@pytest.mark.parametrize(
    ("schema", "name", "expected"),
    [
        ("public", "orders", "mlog$_orders"),
        ("sales", "orders", "mlog$_sales.orders"),
        ("public", "x" * 55, "mlog$_" + "x" * 54),
    ],
)
def test_derived_name_shows_the_table(schema: str, name: str, expected: str) -> None:
    derived = names.derived("mlog$_", QualifiedName(schema, name))
    if len(expected) == LIMIT:
        assert derived != expected  # a hash stands where the name was cut
        assert derived.startswith("mlog$_xxx")
    else:
        assert derived == expected


@given(schema=ANY_NAME, name=ANY_NAME)
def test_derived_name_fits(schema: str, name: str) -> None:
    derived = names.derived("def$_", QualifiedName(schema, name))
    assert len(derived.encode()) <= LIMIT


@given(
    one=st.tuples(ANY_NAME, ANY_NAME).map(lambda pair: QualifiedName(*pair)),
    other=st.tuples(ANY_NAME, ANY_NAME).map(lambda pair: QualifiedName(*pair)),
)
def test_derived_names_tell_tables_apart(
    one: QualifiedName, other: QualifiedName
) -> None:
    if one != other:
        assert names.derived("def$_", one) != names.derived("def$_", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("public", "a.b"), ("a", "b")),
        (("a.b", "c"), ("a", "b.c")),
        (("public", "x" * 60), ("public", "x" * 61)),
        (("public", "é" * 40), ("public", "é" * 41)),
    ],
)
def test_names_that_are_easily_confused(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    derived = [names.derived("def$_", QualifiedName(*pair)) for pair in (one, other)]
    assert derived[0] != derived[1]


def test_quotes_are_doubled() -> None:
    assert names.quoted('a"b') == '"a""b"'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a, b", ["a", "b"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ('s."x, y" , "12"" nails"', ['s."x, y"', '"12"" nails"']),
        ("", [""]),
    ],
)
def test_names_are_divided_outside_quotes(text: str, parts: list[str]) -> None:
    assert divided(text, ",") == parts


@given(st.lists(ANY_NAME, min_size=1))
def test_names_that_were_quoted_come_back(given_names: list[str]) -> None:
    text = ", ".join(names.quoted(name) for name in given_names)
    assert [plain(part) for part in divided(text, ",")] == given_names


def test_a_quote_has_to_be_closed() -> None:
    with pytest.raises(BadName, match="not closed"):
        divided('a,"b', ",")
    with pytest.raises(BadName):
        plain('"a"b')
