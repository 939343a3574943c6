"""Custom routines: registered by name, never able to stop the queue."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from masters.errors import InvalidParameter, UnknownRoutine, UnusableRoutine
from masters.resolution import (
    Conflict,
    Decision,
    Resolution,
    register,
    registry,
    routines,
)
from masters.resolution.custom import Custom
from tests.unit.conflicts import delete_conflict, update_conflict


@pytest.fixture(autouse=True)
def _no_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routines.REGISTRY, "_registered", {})


def site_wins(conflict: Conflict) -> Resolution:
    return Resolution(decision=Decision.SITE_WINS)


def ask(routine: object, conflict: Conflict | None = None) -> Resolution:
    register("house_rule", routine)  # type: ignore[arg-type]
    method = Custom.build({"routine": "house_rule"}, ["price"])
    return method(conflict or update_conflict(new={"price": 2}, current={"price": 3}))


@pytest.mark.parametrize("decision", list(Decision))
def test_a_routine_returns_any_decision(decision):
    assert ask(lambda _: Resolution(decision=decision)).decision is decision


def test_a_routine_changes_columns_of_the_group():
    answer = Resolution(
        decision=Decision.SITE_WINS_ORIGIN_CHANGED, values={"price": 2.5}
    )
    assert ask(lambda _: answer) == answer


def test_a_routine_settles_a_delete_conflict():
    ignore = Resolution(decision=Decision.IGNORE)
    assert ask(lambda _: ignore, delete_conflict()).decision is Decision.IGNORE


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


@pytest.mark.parametrize(
    "error", [ValueError("bad day"), RecursionError(), Unspeakable()]
)
def test_a_routine_that_raises_is_undecided_with_the_reason(error):
    def routine(conflict: Conflict) -> Resolution:
        raise error

    answer = ask(routine)
    assert answer.decision is Decision.UNDECIDED
    assert "house_rule raised" in answer.reason
    assert type(error).__name__ in answer.reason


def wins(values: object) -> Resolution:
    return Resolution(decision=Decision.SITE_WINS, values=values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "NoneType"),
        (True, "bool"),
        (1, "int"),
        ("site_wins", "str"),
        (Decision.SITE_WINS, "Decision"),
        (Resolution(decision=1), "decision 1"),  # type: ignore[arg-type]
        (Resolution(decision=4), "decision 4"),  # type: ignore[arg-type]
        (wins({"colour": "red"}), "'colour'"),
        (wins({"price": 1, None: 2}), "None"),
        (wins(["price"]), "list"),
        (wins(None), "NoneType"),
        (Resolution(decision=Decision.MASTER_WINS, values={"price": 1}), "master_wins"),
        (Resolution(decision=Decision.UNDECIDED, values={"price": 1}), "undecided"),
    ],
)
def test_rubbish_is_undecided_with_the_reason(answer, reason):
    result = ask(lambda _: answer)
    assert result.decision is Decision.UNDECIDED
    assert reason in result.reason
    assert not result.values


def test_a_routine_that_says_nothing_gets_a_reason():
    answer = ask(lambda _: Resolution(decision=Decision.UNDECIDED))
    assert answer.reason == "routine house_rule did not decide"


def test_a_routine_cannot_write_into_the_rows():
    def routine(conflict: Conflict) -> Resolution:
        conflict.new["price"] = 99  # type: ignore[index]
        return Resolution(decision=Decision.SITE_WINS)

    conflict = update_conflict(new={"price": 2}, current={"price": 3})
    assert ask(routine, conflict).decision is Decision.UNDECIDED
    assert conflict.new == {"price": 2}


def test_the_configuration_names_module_and_function():
    register("from_configuration", f"{__name__}:site_wins")
    method = Custom.build({"routine": "from_configuration"}, ["price"])
    assert method(update_conflict()).decision is Decision.SITE_WINS


@pytest.mark.parametrize(
    "reference",
    ["no_such_module:f", "masters.resolution:nothing", "masters.resolution", ""],
)
def test_a_reference_that_cannot_be_imported_is_refused(reference):
    with pytest.raises(UnusableRoutine) as refused:
        register("broken", reference)
    assert refused.value.code == "SNP-128"
    assert refused.value.hint


async def asynchronous(conflict: Conflict) -> Resolution:
    return Resolution(decision=Decision.SITE_WINS)


@pytest.mark.parametrize("routine", [7, None, asynchronous])
def test_what_is_no_plain_function_is_refused(routine):
    with pytest.raises(UnusableRoutine):
        register("broken", routine)


def test_a_name_stands_for_one_routine():
    register("mine", site_wins)
    register("mine", site_wins)
    with pytest.raises(UnusableRoutine, match="mine"):
        register("mine", lambda _: Resolution(decision=Decision.IGNORE))


def test_installed_packages_declare_routines(monkeypatch):
    entry = EntryPoint("installed", f"{__name__}:site_wins", routines.REGISTRY.group)
    monkeypatch.setattr(registry, "installed", lambda _: {"installed": entry})
    method = Custom.build({"routine": "installed"}, ["price"])
    assert method(update_conflict()).decision is Decision.SITE_WINS
    assert routines.REGISTRY.names() == ["installed"]


def test_an_unknown_routine_is_refused_when_the_rule_is_added():
    register("known", site_wins)
    with pytest.raises(UnknownRoutine, match="known") as refused:
        Custom.build({"routine": "stranger"}, ["price"])
    assert refused.value.hint


@pytest.mark.parametrize("routine", [site_wins, None, 7])
def test_a_rule_names_its_routine_and_never_holds_it(routine):
    with pytest.raises(InvalidParameter):
        Custom.build({"routine": routine}, ["price"])
