"""Reading the subqueries of conditions as PostgreSQL prints them."""

import pytest

from sites.conditions import subqueries
from sites.conditions.implied import implies
from sites.conditions.subqueries import Unreadable
from sites.names import QualifiedName

RENTAL = QualifiedName("public", "rental")
CUSTOMER = QualifiedName("public", "customer")
STORE = QualifiedName("public", "store")

FOLLOWS = (
    "(EXISTS ( SELECT FROM public.customer c WHERE ((c.id = rental.customer_id)"
    " AND (c.name <> 'a)'::text) AND (c.store_id IN ( SELECT store.id FROM"
    " public.store WHERE (store.region = 'x'::text))))))"
)


def read(condition: str):
    return subqueries.parts(condition, RENTAL)


def test_condition_without_subquery_is_one_leaf():
    parts = read("(kind = 'EXISTS (SELECT'::text)")
    assert parts.leaves == ("kind = 'EXISTS (SELECT'::text",)
    assert parts.subqueries == ()
    assert read("CASE WHEN (a AND b) THEN true ELSE (c OR d) END").leaves == (
        "CASE WHEN (a AND b) THEN true ELSE (c OR d) END",
    )


def test_nested_subqueries():
    (customer,) = read(FOLLOWS).subqueries
    assert (customer.table, customer.alias) == (CUSTOMER, "c")
    assert (customer.columns, customer.key) == (("customer_id",), ("id",))
    assert customer.leaves == ("c.name <> 'a)'::text",)
    assert customer.uses == {"id", "name", "store_id"}
    assert customer.required
    (store,) = customer.subqueries
    assert (store.table, store.columns, store.key) == (STORE, ("store_id",), ("id",))
    assert store.leaves == ("store.region = 'x'::text",)
    assert [one.table for one in read(FOLLOWS).every()] == [CUSTOMER, STORE]


def test_several_columns_of_a_key():
    (found,) = read(
        '((a, "B b") IN ( SELECT inventory."X",inventory.y FROM public.inventory))'
    ).subqueries
    assert (found.columns, found.key) == (("B b", "a"), ("y", "X"))


def test_varchar_is_compared_as_text():
    (found,) = read(
        "(EXISTS ( SELECT FROM public.code c WHERE ((c.name)::text ="
        " (rental.kind)::text)))"
    ).subqueries
    assert (found.columns, found.key, found.as_text) == (("kind",), ("name",), (True,))


@pytest.mark.parametrize(
    ("given", "other", "known"),
    [
        ("((a = 1) AND (b = 2))", "(a = 1)", True),
        ("(a = 1)", "((a = 1) AND (b = 2))", False),
        ("(a = 1)", "((b = 2) OR (a = 1))", True),
        ("((b = 2) OR (a = 1))", "(a = 1)", False),
        ("((b = 2) AND (c = 3))", "((a = 1) OR ((b = 2) AND (c = 3)))", True),
        ("(b = 2)", "((a = 1) OR ((b = 2) AND (c = 3)))", False),
        ("((b = 2) AND (c = 3))", "(((a = 1) OR (b = 2)) AND (c = 3))", True),
        ("((b = 2) OR (a = 1))", "((b = 2) OR (a = 1))", True),
        ("(a = 1)", "(NOT (a = 1))", False),
        ("(a = 1)", "(NOT ((a = 1) OR (b = 2)))", False),
    ],
)
def test_what_one_condition_says_about_another(given, other, known):
    assert implies(read(given).shape, read(other).shape) is known


def test_a_condition_on_all_rows_is_fulfilled_by_each():
    assert implies(read("(a = 1)").shape, ())
    assert not implies((), read("(a = 1)").shape)


@pytest.mark.parametrize(
    ("around", "required"),
    [
        ("({} AND (a = 1))", True),
        ("((a = 1) AND ((b = 2) AND {}))", True),
        ("({} OR (a = 1))", False),
        ("(NOT {})", False),
    ],
)
def test_only_and_requires_a_parent(around, required):
    (found,) = read(around.format(FOLLOWS)).subqueries
    assert found.required is required


def test_the_same_condition_has_the_same_shape_below_and_alone():
    (customer,) = read(FOLLOWS).subqueries
    alone = (
        "((name <> 'a)'::text) AND (EXISTS ( SELECT FROM public.store s WHERE"
        " ((s.region = 'x'::text) AND (s.id = customer.store_id)))))"
    )
    assert subqueries.parts(alone, CUSTOMER).shape == customer.shape
    other = alone.replace("'x'", "'y'")
    assert subqueries.parts(other, CUSTOMER).shape != customer.shape


def test_other_tables_under_the_names_in_the_condition():
    tables = {
        CUSTOMER: QualifiedName("public", "snap$_customer"),
        STORE: QualifiedName("a b", "snap$_store"),
    }
    text = subqueries.renamed(FOLLOWS, tables)
    assert 'FROM "public"."snap$_customer" "c" WHERE ((c.id =' in text
    assert 'FROM "a b"."snap$_store" "store" WHERE (store.region' in text


def test_what_exists_selects_is_left_out():
    printed = (
        "(EXISTS ( SELECT c.id,\n            'SELECT'::text\n"
        "           FROM public.customer c\n          WHERE (c.id = rental.a)))"
    )
    assert subqueries.one_line(printed) == (
        "(EXISTS ( SELECT FROM public.customer c WHERE (c.id = rental.a)))"
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("(NOT (a IN ( SELECT c.id FROM public.c)))", "NOT EXISTS"),
        ("(a = ( SELECT c.id FROM public.c))", "may stand in EXISTS"),
        ("((EXISTS ( SELECT FROM public.c WHERE (c.id = rental.a))) IS TRUE)", "may"),
        ("(EXISTS ( SELECT FROM public.c WHERE (c.id > rental.a)))", "the equality"),
        ("(EXISTS ( SELECT FROM public.c WHERE (c.x = 1)))", "by the key"),
        ("(EXISTS ( SELECT FROM ONLY public.c WHERE (c.id = rental.a)))", "one table"),
        ("(EXISTS ( SELECT FROM public.c, public.d WHERE (c.id = rental.a)))", "one t"),
        ("(EXISTS ( SELECT FROM public.c WHERE (c.id = rental.a) LIMIT 1))", "LIMIT"),
        ("(EXISTS ( WITH x AS ( SELECT 1 ) SELECT FROM public.c))", "WITH"),
        (
            "(EXISTS ( SELECT FROM public.c WHERE ((c.id = rental.a) OR (c.x = 1))))",
            "AND alone",
        ),
        (
            "(EXISTS ( SELECT FROM public.c WHERE ((c.id = rental.a) AND (c.* = 1))))",
            "name the columns",
        ),
        ("((a + 1) IN ( SELECT c.id FROM public.c))", "must be a column"),
    ],
)
def test_other_forms_are_refused(condition, message):
    with pytest.raises(Unreadable, match=message):
        read(condition)


def test_an_aggregate_that_exists_selects_is_refused():
    with pytest.raises(Unreadable, match="without expressions"):
        subqueries.one_line("(EXISTS ( SELECT count(*) FROM public.c))")


def test_the_schema_of_a_type_is_no_table():
    (found,) = read(
        "(EXISTS ( SELECT FROM public.customer c WHERE ((c.id = rental.customer_id)"
        " AND (c.mood = 'on'::c.mood_of_all))))"
    ).subqueries
    assert found.uses == {"id", "mood"}
