"""Which constants every row of a condition has one of, from what PostgreSQL prints."""

from __future__ import annotations

import pytest

from sites.conditions import subqueries
from sites.conditions.constants import demanded, is_same_everywhere
from sites.names import QualifiedName

TABLE = QualifiedName("public", "t")

ANY = (
    "((s)::text = ANY ((ARRAY['a'::character varying,"
    " 'b'::character varying])::text[]))"
)
ASKS = "EXISTS ( SELECT FROM public.u WHERE ((u.id = t.b) AND (u.c = 9)))"


def read(condition: str) -> dict[str, list[str]]:
    found = demanded(subqueries.parts(condition, TABLE).shape)
    return {name: [one.text for one in every] for name, every in found.items()}


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("(origin = 'JFK'::text)", {"origin": ["'JFK'::text"]}),
        ("(t.origin = 'JFK'::text)", {"origin": ["'JFK'::text"]}),
        ("(t.n = 5)", {"n": ["5"]}),
        ("(n = '-5'::integer)", {"n": ["'-5'::integer"]}),
        ("(n = (1.50)::double precision)", {"n": ["( 1.50 )::double precision"]}),
        ("(\"T\" = E'it\\'s = '''::text)", {"T": ["E'it\\'s = '''::text"]}),
        ("(m = 'on'::t.mood)", {"m": ["'on'::t.mood"]}),
        ("(x = 'a'::character(3))", {"x": ["'a'::character ( 3 )"]}),
        ("(a = ANY ('{1,2}'::integer[]))", {"a": ["'{1,2}'::integer [ ]"]}),
        ("(b = true)", {"b": ["true"]}),
        ("((a = 1) AND (b = 2) AND (c < 3))", {"a": ["1"], "b": ["2"]}),
        ("((a = 1) OR (a = 2) OR ((a = 3) AND (b = 4)))", {"a": ["1", "2", "3"]}),
        ("(((a = 1) OR (b = 1)) AND (c = 7))", {"c": ["7"]}),
        (f"((a = 1) AND ({ASKS}))", {"a": ["1"]}),
    ],
)
def test_constants_that_every_row_has(
    condition: str, found: dict[str, list[str]]
) -> None:
    assert read(condition) == found


def test_lists_and_casts() -> None:
    (one,) = demanded(subqueries.parts(ANY, TABLE).shape)["s"]
    assert (one.is_list, one.cast) == (True, "text")
    assert one.text.startswith("( ARRAY [ 'a'::character varying")


@pytest.mark.parametrize(
    "condition",
    [
        "(origin <> 'JFK'::text)",
        "(n >= 5)",
        "(5 = n)",
        "(5 = 5)",
        "(true = true)",
        "('5'::text = 'n'::text)",
        "(NOT (origin = 'JFK'::text))",
        "((origin = 'JFK'::text) IS NOT TRUE)",
        "((a = 1) OR (b = 1))",
        "((a = 1) OR (a > 7))",
        "(a = b)",
        "(a = lower('JFK'::text))",
        "(a = (('x'::text || 'y'::text)))",
        "(lower(a) = 'jfk'::text)",
        "(a = ('x'::text COLLATE \"C\"))",
        "((a COLLATE \"C\") = 'x'::text)",
        "(a OPERATOR(public.=) 'x'::public.citext)",
        "((a).b = 1)",
        "(a = ANY (b))",
        "(a = ALL (ARRAY[1, 2]))",
        "((n + 1) = 5)",
        "(a IS NOT DISTINCT FROM 'x'::text)",
        "CASE WHEN (a = 1) THEN (a = 1) ELSE false END",
        "((a = 1) = (b = 2))",
        "(a === 1)",
        "(EXISTS ( SELECT FROM public.u WHERE ((u.id = t.a) AND (u.c = 9))))",
    ],
)
def test_what_says_nothing_about_a_column(condition: str) -> None:
    assert read(condition) == {}


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("(origin = 'JFK'::text)", True),
        (ANY, True),
        ("((origin = 'JFK'::text) AND ((n > 100) OR (n IS NULL)))", True),
        ("(NOT (origin = 'JFK'::text))", True),
        ("(day >= '2020-01-01'::date)", True),
        ("((n)::numeric > 1.5)", True),
        ("(origin > 'J'::text)", False),
        ("((n = 5) AND (origin ~~* 'j%'::text))", False),
        ("(lower(origin) = 'jfk'::text)", False),
        ("((n)::text > '1'::text)", False),
        ("(public.mine(n) > 5)", False),
    ],
)
def test_conditions_that_choose_the_same_rows_everywhere(
    condition: str, same: bool
) -> None:
    shape = subqueries.parts(condition, TABLE).shape
    assert is_same_everywhere(shape, ["n", "day"]) == same


def test_a_condition_of_all_rows() -> None:
    assert demanded(subqueries.parts(None, TABLE).shape) == {}
