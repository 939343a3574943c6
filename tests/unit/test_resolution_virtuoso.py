"""Virtuoso's classes as our rules."""

from __future__ import annotations

import pytest

from masters import resolution
from masters.apply.resolve import Explicit, RowResolution
from masters.errors import MethodDoesNotFit, MissingParameter, UnknownMethod
from masters.resolution import (
    Conflict,
    Decision,
    Kind,
    Resolution,
    register,
    routines,
    virtuoso,
)
from masters.rules import Rule
from tests.unit.conflicts import delete_conflict, resolve, update_conflict

CLASSES = {
    "min": ("minimum", {"column": "price", "tie": "site"}),
    "max": ("maximum", {"column": "price", "tie": "site"}),
    "ave": ("average", {}),
    "add": ("additive", {}),
    "pub_wins": ("discard", {}),
    "sub_wins": ("overwrite", {}),
}


@pytest.fixture(autouse=True)
def _no_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routines.REGISTRY, "_registered", {})


def settle(*orders: tuple[int, Resolution]) -> tuple[RowResolution, list[int]]:
    """Virtuoso's custom resolvers in their order, and which of them ran."""
    ran: list[int] = []

    def routine(order: int, answer: Resolution) -> routines.Routine:
        def run(conflict: Conflict) -> Resolution:
            ran.append(order)
            return answer

        return run

    rules = []
    for order, answer in orders:
        register(f"resolver_{order}", routine(order, answer))
        rules.append(
            Rule(
                kind=Kind.UPDATE,
                column_group="sale",
                sequence_no=order,
                method="custom",
                parameters={"routine": f"resolver_{order}"},
            )
        )
    conflict = update_conflict(
        old={"price": 10}, new={"price": 15}, current={"price": 12}
    )
    return resolve([conflict], rules), ran


def answer(decision: Decision, **values: object) -> Resolution:
    return Resolution(decision=decision, values=values)


def test_acceptance_virtuoso_d7_4_the_next_resolver_decides_when_the_first_does_not():
    result, ran = settle(
        (20, answer(Decision.SITE_WINS)), (10, answer(Decision.UNDECIDED))
    )
    assert result.records[0].resolution.decision is Decision.SITE_WINS
    assert ran == [10, 20]


def test_acceptance_virtuoso_d7_4_the_second_is_not_run_when_the_first_decides():
    result, ran = settle(
        (20, answer(Decision.SITE_WINS)), (10, answer(Decision.MASTER_WINS))
    )
    assert result.records[0].resolution.decision is Decision.MASTER_WINS
    assert ran == [10]


def test_acceptance_virtuoso_d7_5_a_price_changed_by_the_routine_goes_to_everyone():
    result, _ = settle((10, answer(Decision.SITE_WINS_ORIGIN_CHANGED, price=14)))
    assert result.columns == {"price": Explicit(value=14)}
    assert result.origin_changed


@pytest.mark.parametrize("class_name", CLASSES)
def test_each_class_is_a_rule_of_ours(class_name):
    method, parameters = virtuoso(class_name, "price")
    assert (method, parameters) == CLASSES[class_name]
    resolution.build(method, Kind.UPDATE, parameters, ["price"])


@pytest.mark.parametrize(
    ("class_name", "kind", "method"),
    [
        ("pub_wins", Kind.UNIQUENESS, "discard"),
        ("sub_wins", Kind.UNIQUENESS, "informix_always"),
        ("pub_wins", Kind.DELETE, "ignore"),
        ("sub_wins", Kind.DELETE, "informix_ignore"),
    ],
)
def test_the_winners_settle_inserts_and_deletes_too(class_name, kind, method):
    assert virtuoso(class_name, kind=kind) == (method, {})
    resolution.build(method, kind, {}, ["id"])


@pytest.mark.parametrize(
    ("current", "decision"),
    [({"id": 1, "price": 11}, Decision.SITE_WINS), (None, Decision.IGNORE)],
)
def test_a_subscriber_that_wins_deletes_and_never_inserts_again(current, decision):
    method, parameters = virtuoso("sub_wins", kind=Kind.DELETE)
    built = resolution.build(method, Kind.DELETE, parameters, ["id", "price"])
    for new in (None, {"id": 1, "price": 12}):
        if new is None or current is None:
            assert built(delete_conflict(new=new, current=current)).decision is decision


@pytest.mark.parametrize("class_name", ["min", "max", "ave", "add"])
def test_the_computing_classes_need_a_column_and_an_update(class_name):
    with pytest.raises(MissingParameter, match=class_name):
        virtuoso(class_name)
    for kind in (Kind.UNIQUENESS, Kind.DELETE):
        with pytest.raises(MethodDoesNotFit, match=class_name):
            virtuoso(class_name, "price", kind)


def test_an_unknown_class_is_refused_and_the_known_ones_are_named():
    with pytest.raises(UnknownMethod, match="pub_wins"):
        virtuoso("custom", "price")
