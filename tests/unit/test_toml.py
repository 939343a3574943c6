"""Rules that are printed as a file are read as what they were."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from snaptide import toml

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    st.none(),
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(TEXT, max_size=3),
    st.dictionaries(TEXT, st.integers(-9, 9) | TEXT, max_size=3),
)
RULE = st.fixed_dictionaries(
    {"method": TEXT, "parameters": st.dictionaries(TEXT, VALUES, max_size=3)}
)
BODY = st.fixed_dictionaries(
    {},
    optional={
        "groups": st.dictionaries(TEXT, st.lists(TEXT, min_size=1), max_size=2),
        "row_version": TEXT,
        "update": st.lists(RULE, min_size=1, max_size=3),
        "delete": st.lists(RULE, min_size=1, max_size=3),
    },
)


@given(st.dictionaries(TEXT, BODY, max_size=3))
def test_a_document_is_read_as_it_was(tables: dict[str, Any]) -> None:
    written = toml.written({"tables": tables})
    assert tomllib.loads(written).get("tables", {}) == _without_null(tables)


def test_what_json_writes_and_toml_cannot_read() -> None:
    names = {"tables": {"a\x7fb": {"delete": [{"method": "x", "parameters": {}}]}}}
    assert tomllib.loads(toml.written(names)) == names
    nothing = {"row_version": None, "n": float("inf")}
    assert tomllib.loads(toml.written({"tables": {"t": nothing}})) == {
        "tables": {"t": {"n": float("inf")}}
    }


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {n: _without_null(v) for n, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_null(one) for one in value]
    return value
