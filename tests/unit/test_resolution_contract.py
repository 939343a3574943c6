"""One suite, every resolution method: what all of them promise.

A new method needs an example here, or the first test fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product

import pytest

from masters import resolution
from masters.errors import (
    InvalidParameter,
    MethodDoesNotFit,
    MissingParameter,
    RuleError,
    UnknownMethod,
    UnknownParameter,
)
from masters.resolution import METHODS, routines
from masters.resolution.conflict import (
    Conflict,
    Decision,
    Kind,
    Resolution,
    Row,
    rubbish,
)
from tests.unit.conflicts import update_conflict


@dataclass(frozen=True, kw_only=True)
class Example:
    """A rule that a method accepts, and what its rule says of NULL and equality."""

    #: the column that decides or is decided
    column: str
    #: values of that column, in no particular order
    values: tuple[object, ...]
    parameters: dict[str, object] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    #: the rows in which NULL in the column leaves the conflict undecided
    null_undecided: tuple[str, ...] = ()
    equal_undecided: bool = False
    #: whether a row that is gone can leave the conflict undecided
    gone_undecided: bool = False


STAMPS = (
    datetime(2026, 3, 1, tzinfo=UTC),
    datetime(2026, 3, 2, tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
)

MAGNITUDES = (Decimal("1"), Decimal("1.5"), Decimal("Infinity"), Decimal("NaN"), 2)

EXAMPLES = {
    "additive": Example(
        column="stock",
        values=(Decimal("10"), Decimal("15"), Decimal("7.50"), Decimal("NaN")),
        null_undecided=("old", "new", "current"),
    ),
    "append_sequence": Example(
        column="code",
        values=("X", "Y", 7),
        parameters={"column": "code"},
        required=("column",),
        null_undecided=("new",),
    ),
    "append_site_name": Example(
        column="code",
        values=("X", "Y", 7),
        parameters={"column": "code"},
        required=("column",),
        null_undecided=("new",),
    ),
    "average": Example(
        column="price",
        values=(Decimal("10"), Decimal("15"), Decimal("7.50"), Decimal("NaN")),
        null_undecided=("new", "current"),
    ),
    "cascade": Example(column="price", values=(1, 2), gone_undecided=True),
    "custom": Example(
        column="notes",
        values=(["a"], ["b"], {"c": [1]}),
        parameters={"routine": "contract"},
        required=("routine",),
    ),
    "discard": Example(column="price", values=(1, 2)),
    "earliest_timestamp": Example(
        column="updated",
        values=STAMPS,
        parameters={"column": "updated"},
        required=("column",),
        null_undecided=("new", "current"),
        equal_undecided=True,
    ),
    "ignore": Example(column="price", values=(1, 2)),
    "informix_always": Example(column="price", values=(1, 2)),
    "informix_delete_wins": Example(
        column="updated",
        values=STAMPS,
        parameters={"column": "updated", "servers": {"hq": 1, "jfk": 2}},
        required=("column",),
        null_undecided=("new", "current"),
    ),
    "informix_ignore": Example(column="price", values=(1, 2)),
    "informix_timestamp": Example(
        column="updated",
        values=STAMPS,
        parameters={"column": "updated", "servers": {"hq": 1, "jfk": 2}},
        required=("column",),
        null_undecided=("new", "current"),
    ),
    "latest_timestamp": Example(
        column="updated",
        values=STAMPS,
        parameters={"column": "updated"},
        required=("column",),
        null_undecided=("new", "current"),
        equal_undecided=True,
    ),
    "maximum": Example(
        column="price",
        values=MAGNITUDES,
        parameters={"column": "price"},
        required=("column",),
        null_undecided=("new", "current"),
        equal_undecided=True,
    ),
    "minimum": Example(
        column="price",
        values=MAGNITUDES,
        parameters={"column": "price"},
        required=("column",),
        null_undecided=("new", "current"),
        equal_undecided=True,
    ),
    "overwrite": Example(column="price", values=(1, 2)),
    "priority_group": Example(
        column="status",
        values=("new", "sold", "lost", "unheard of"),
        parameters={
            "column": "status",
            "priorities": {"new": 1, "sold": 2, "lost": 2},
        },
        required=("column", "priorities"),
        null_undecided=("new", "current"),
        equal_undecided=True,
    ),
    "restore": Example(column="price", values=(1, 2), gone_undecided=True),
    "site_priority": Example(
        column="site",
        values=("hq", "jfk", "ewr", "nowhere"),
        parameters={"column": "site", "priorities": {"hq": 3, "jfk": 2, "ewr": 2}},
        required=("priorities",),
        null_undecided=("new", "current"),
        equal_undecided=True,
    ),
}

every_method = pytest.mark.parametrize("name", sorted(METHODS))


def rude_routine(conflict: Conflict) -> Resolution:
    """Decides by the new value, and tries to change what it was given on the way."""
    for row in (conflict.old, conflict.new, conflict.current):
        for value in (row or {}).values():
            if isinstance(value, list):
                value.append("scribble")
    return Resolution(decision=Decision.SITE_WINS)


@pytest.fixture(autouse=True)
def _routine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routines.REGISTRY, "_registered", {"contract": rude_routine})


def built(name: str) -> resolution.Method:
    example = EXAMPLES[name]
    kind = min(METHODS[name].kinds)
    return resolution.build(name, kind, example.parameters, [example.column])


def images(name: str, kind: Kind) -> Iterator[Conflict]:
    """Every combination of values, NULL and absent rows in the three images."""
    column = EXAMPLES[name].column
    rows = [{column: value} for value in (*EXAMPLES[name].values, None)]
    for old, new, current in product([*rows, None, {}], repeat=3):
        yield Conflict(
            kind=kind,
            table=("public", "products"),
            column_group="sale" if kind is Kind.UPDATE else None,
            constraint="products_code_key" if kind is Kind.UNIQUENESS else None,
            columns=(column,),
            old=deepcopy(old),
            new=deepcopy(new),
            current=deepcopy(current),
            origin="jfk",
            master="hq",
            number=7,
        )


def _only(columns: frozenset[str], row: Row | None) -> Row | None:
    return row if row is None else {n: row[n] for n in row if n in columns}


def first_kind(name: str) -> Kind:
    """The kind for which the examples say what becomes of NULL and equal values."""
    kinds = METHODS[name].kinds
    return Kind.UPDATE if Kind.UPDATE in kinds else min(kinds)


def conflicts(name: str) -> Iterator[Conflict]:
    """Conflicts of every kind that the method settles."""
    for kind in METHODS[name].kinds:
        yield from images(name, kind)


def test_every_method_has_an_example():
    assert sorted(EXAMPLES) == sorted(METHODS)


@every_method
def test_a_method_has_its_name_and_says_whose_rule_it_is(name):
    method = METHODS[name]
    assert method.name == name
    systems = ("Oracle", "Sybase", "Informix", "Virtuoso", "Ingres", "Snaptide")
    assert (method.__doc__ or "").startswith(systems)


@every_method
def test_the_same_inputs_give_the_same_answer(name):
    for conflict in conflicts(name):
        assert repr(built(name)(conflict)) == repr(built(name)(deepcopy(conflict)))


@every_method
def test_columns_that_it_does_not_read_do_not_matter(name):
    for conflict in conflicts(name):
        read = built(name).reads()
        if read is None:
            continue
        bare = replace(
            conflict,
            old=_only(read, conflict.old),
            new=_only(read, conflict.new),
            current=_only(read, conflict.current),
        )
        assert repr(built(name)(bare)) == repr(built(name)(conflict))


@every_method
def test_inputs_stay_as_they_are(name):
    for conflict in conflicts(name):
        before = repr(conflict)
        built(name)(conflict)
        assert repr(conflict) == before


@every_method
def test_the_answer_is_one_of_the_decisions_and_touches_only_the_group(name):
    for conflict in conflicts(name):
        answer = built(name)(conflict)
        assert rubbish(answer, conflict) is None
        assert answer.reason or answer.decision is not Decision.UNDECIDED


@every_method
def test_null_in_a_deciding_value_is_undecided_where_the_rule_says_so(name):
    example = EXAMPLES[name]
    for conflict in images(name, first_kind(name)):
        nulls = [
            side
            for side in example.null_undecided
            if (getattr(conflict, side) or {}).get(example.column) is None
        ]
        if nulls:
            assert built(name)(conflict).decision is Decision.UNDECIDED


@every_method
def test_equal_values_are_undecided_where_the_rule_says_so(name):
    example = EXAMPLES[name]
    for value in example.values:
        row = {example.column: value}
        conflict = update_conflict((example.column,), old=row, new=row, current=row)
        if example.equal_undecided:
            assert built(name)(conflict).decision is Decision.UNDECIDED


@every_method
def test_a_method_that_ignores_null_and_equality_always_decides(name):
    example = EXAMPLES[name]
    if not (
        example.null_undecided or example.equal_undecided or example.gone_undecided
    ):
        for conflict in conflicts(name):
            assert built(name)(conflict).decision is not Decision.UNDECIDED


@every_method
def test_unknown_parameters_are_refused(name):
    example = EXAMPLES[name]
    with pytest.raises(UnknownParameter, match="colour") as refused:
        METHODS[name].build({**example.parameters, "colour": 1}, [example.column])
    assert refused.value.code == "SNP-123"
    assert refused.value.hint


@every_method
def test_missing_parameters_are_refused(name):
    example = EXAMPLES[name]
    for missing in example.required:
        given = {k: v for k, v in example.parameters.items() if k != missing}
        with pytest.raises(MissingParameter, match=missing) as refused:
            METHODS[name].build(given, [example.column])
        assert refused.value.hint


@every_method
def test_rubbish_as_a_parameter_is_refused(name):
    example = EXAMPLES[name]
    for parameter in example.parameters:
        # None is how an optional parameter is left out.
        nothing = (None,) if parameter in example.required else ()
        for value in (7, [], "no such", *nothing):
            given = {**example.parameters, parameter: value}
            with pytest.raises(RuleError):
                METHODS[name].build(given, [example.column])


@every_method
def test_parameters_are_taken_when_the_rule_is_built(name):
    example = EXAMPLES[name]
    parameters = deepcopy(example.parameters)
    method = METHODS[name].build(parameters, [example.column])
    for value in parameters.values():
        if isinstance(value, dict):
            value.clear()
    parameters.clear()
    for conflict in conflicts(name):
        assert repr(method(conflict)) == repr(built(name)(conflict))


@every_method
def test_kinds_that_a_method_does_not_settle_are_refused(name):
    example = EXAMPLES[name]
    for kind in set(Kind) - METHODS[name].kinds:
        with pytest.raises(MethodDoesNotFit, match=str(kind)):
            resolution.build(name, kind, example.parameters, [example.column])


TIES = {
    "undecided": Decision.UNDECIDED,
    "site": Decision.SITE_WINS,
    "master": Decision.MASTER_WINS,
}


def with_tie() -> list[str]:
    """The methods that take the parameter, by their own word."""
    found = []
    for name, method in METHODS.items():
        example = EXAMPLES[name]
        with suppress(UnknownParameter):
            method.build({**example.parameters, "tie": "site"}, [example.column])
            found.append(name)
    return found


def test_these_take_a_tie():
    assert with_tie() == [
        "earliest_timestamp",
        "latest_timestamp",
        "maximum",
        "minimum",
    ]


@pytest.mark.parametrize("tie", TIES)
def test_equal_values_are_decided_by_the_tie_where_systems_differ(tie):
    for name in with_tie():
        example = EXAMPLES[name]
        parameters = {**example.parameters, "tie": tie}
        method = METHODS[name].build(parameters, [example.column])
        for value in example.values:
            row = {example.column: value}
            conflict = update_conflict((example.column,), old=row, new=row, current=row)
            assert method(conflict).decision is TIES[tie]


@pytest.mark.parametrize("tie", ["nobody", "SITE", 7, [], {}, True])
def test_there_is_no_other_tie(tie):
    for name in with_tie():
        example = EXAMPLES[name]
        with pytest.raises(InvalidParameter, match="undecided, site, master"):
            METHODS[name].build({**example.parameters, "tie": tie}, [example.column])


def test_these_settle_delete_conflicts():
    assert [n for n, m in METHODS.items() if Kind.DELETE in m.kinds] == [
        "cascade",
        "custom",
        "ignore",
        "informix_always",
        "informix_delete_wins",
        "informix_ignore",
        "informix_timestamp",
        "restore",
    ]


def test_these_settle_uniqueness_conflicts():
    assert [n for n, m in METHODS.items() if Kind.UNIQUENESS in m.kinds] == [
        "append_sequence",
        "append_site_name",
        "custom",
        "discard",
        "informix_always",
        "informix_delete_wins",
        "informix_ignore",
        "informix_timestamp",
    ]


def test_an_unknown_method_is_refused_and_the_known_ones_are_named():
    with pytest.raises(UnknownMethod, match="latest_timestamp"):
        resolution.build("newest", Kind.UPDATE, {}, ["price"])
