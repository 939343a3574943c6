"""The rules of a row: sequence, column groups, all or nothing."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime

import pytest

from masters.apply.resolve import Explicit, Take
from masters.errors import RuleError
from masters.resolution import Conflict, Decision, Kind, Resolution, register, routines
from masters.rules import Rule
from tests.unit.conflicts import (
    delete_conflict,
    resolve,
    uniqueness_conflict,
    update_conflict,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SALE = ("price", "updated")


@pytest.fixture(autouse=True)
def _no_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routines.REGISTRY, "_registered", {})


def group_rule(
    method: str, sequence_no: int = 1, group: str = "sale", **parameters: object
) -> Rule:
    return Rule(
        kind=Kind.UPDATE,
        column_group=group,
        sequence_no=sequence_no,
        method=method,
        parameters=parameters,
    )


def custom_rule(kind: Kind, decision: object, **values: object) -> Rule:
    """A rule of that kind whose routine always gives this answer."""

    def routine(conflict: Conflict) -> Resolution:
        return Resolution(decision=decision, values=values)  # type: ignore[arg-type]

    register(f"{kind}_rule", routine)
    return Rule(
        kind=kind,
        column_group="sale" if kind is Kind.UPDATE else None,
        constraint="products_code_key" if kind is Kind.UNIQUENESS else None,
        sequence_no=1,
        method="custom",
        parameters={"routine": f"{kind}_rule"},
    )


def stamped(new: datetime | None, current: datetime | None) -> Conflict:
    return update_conflict(
        SALE,
        old={"price": 1, "updated": None},
        new={"price": 2, "updated": new},
        current={"price": 3, "updated": current},
    )


def stock() -> Conflict:
    return update_conflict(
        ("stock",),
        group="stock",
        old={"stock": 10},
        new={"stock": 15},
        current={"stock": 7},
    )


LATEST = group_rule("latest_timestamp", column="updated")


def test_rule_that_rejects_leaves_nothing_to_the_next():
    reject = custom_rule(Kind.UPDATE, Decision.REJECT)
    result = resolve([stamped(NOON, NOON)], [reject, group_rule("overwrite", 2)])
    [unresolved] = result.unresolved
    assert [tried.rule for tried in unresolved.attempts] == [reject]


def test_acceptance_a14_10_equal_stamps_without_a_backup_stay_unresolved():
    result = resolve([stamped(NOON, NOON)], [LATEST])
    assert not result.resolved
    assert "latest_timestamp: updated" in result.unresolved[0].reason
    assert result.columns == {}


@pytest.mark.parametrize(
    ("jfk", "take"), [(2, Take.NEW), (0, Take.CURRENT)], ids=["site", "master"]
)
def test_acceptance_a14_10_site_priority_as_second_decides(jfk, take):
    backup = group_rule("site_priority", 2, priorities={"hq": 1, "jfk": jfk})
    result = resolve([stamped(NOON, NOON)], [backup, LATEST])
    assert result.resolved
    assert result.columns == {"price": take, "updated": take}
    (record,) = result.records
    assert record.rule == backup
    assert [attempt.rule for attempt in record.passed] == [LATEST]


def test_rules_are_tried_in_sequence_and_no_further_than_the_first_decision():
    rules = [group_rule("overwrite", 30), group_rule("discard", 20)]
    (record,) = resolve([stamped(None, NOON)], rules).records
    assert record.rule.method == "discard"
    assert record.passed == ()


def test_null_goes_to_the_next_in_sequence():
    result = resolve([stamped(None, NOON)], [LATEST, group_rule("overwrite", 2)])
    assert result.columns == {"price": Take.NEW, "updated": Take.NEW}


def test_each_column_group_follows_its_own_rules():
    rules = [LATEST, group_rule("additive", group="stock")]
    early = NOON.replace(hour=11)
    result = resolve([stamped(early, NOON), stock()], rules)
    assert result.columns == {
        "price": Take.CURRENT,
        "updated": Take.CURRENT,
        "stock": Explicit(value=12),
    }
    assert not result.origin_changed
    assert not result.ignored


def test_all_conflicts_of_the_row_resolve_or_none_does():
    rules = [LATEST, group_rule("additive", group="stock")]
    result = resolve([stamped(NOON, NOON), stock()], rules)
    assert not result.resolved
    assert result.columns == {}
    assert [one.conflict.column_group for one in result.unresolved] == ["sale"]
    assert [one.conflict.column_group for one in result.records] == ["stock"]


def test_an_unresolved_uniqueness_conflict_fails_the_row():
    rules = [group_rule("overwrite")]
    result = resolve([stamped(NOON, NOON), uniqueness_conflict()], rules)
    assert [one.reason for one in result.unresolved] == ["no rule"]


def test_the_shadow_group_has_no_rules():
    shadow = update_conflict(("remark",), group=None)
    result = resolve([shadow], [group_rule("overwrite")])
    assert result.unresolved[0].attempts == ()


def test_every_method_that_was_tried_says_why():
    rules = [
        LATEST,
        group_rule("site_priority", 2, priorities={"hq": 1}),
        group_rule("additive", 3),
    ]
    (unresolved,) = resolve([stamped(None, NOON)], rules).unresolved
    latest, priority, additive = (attempt.reason for attempt in unresolved.attempts)
    assert latest == "updated is NULL in the new row"
    assert priority == "site 'jfk' has no priority"
    assert "one numeric column" in additive


def test_an_ignored_row_is_ignored_as_a_whole():
    rules = [
        custom_rule(Kind.UPDATE, Decision.IGNORE),
        group_rule("additive", group="stock"),
    ]
    result = resolve([stamped(NOON, NOON), stock()], rules)
    assert result.resolved
    assert result.ignored
    assert result.columns == {}


def test_discard_drops_the_row_that_is_not_unique():
    discard = Rule(
        kind=Kind.UNIQUENESS,
        constraint="products_code_key",
        sequence_no=1,
        method="discard",
    )
    assert resolve([uniqueness_conflict()], [discard]).ignored
    other = uniqueness_conflict(constraint="products_name_key")
    assert not resolve([other], [discard]).resolved


def test_a_changed_origin_is_told():
    rule = custom_rule(Kind.UPDATE, Decision.SITE_WINS_ORIGIN_CHANGED, price=2.5)
    result = resolve([stamped(NOON, NOON)], [rule])
    assert result.origin_changed
    assert result.columns == {"price": Explicit(value=2.5), "updated": Take.NEW}


def test_a_value_made_unique_goes_on_top_of_its_column_group():
    group = update_conflict(("code", "price"))
    rules = [
        custom_rule(Kind.UNIQUENESS, Decision.SITE_WINS, code="X-jfk"),
        group_rule("overwrite"),
    ]
    for conflicts in ([group, uniqueness_conflict()], [uniqueness_conflict(), group]):
        result = resolve(conflicts, rules)
        assert result.columns == {"code": Explicit(value="X-jfk"), "price": Take.NEW}


def test_a_column_that_its_group_keeps_stays_kept_when_a_routine_takes_the_row():
    conflicts = [update_conflict(("code", "price")), uniqueness_conflict()]
    rules = [
        custom_rule(Kind.UNIQUENESS, Decision.SITE_WINS),
        group_rule("discard"),
    ]
    result = resolve(conflicts, rules)
    assert result.columns == {"code": Take.CURRENT, "price": Take.CURRENT}


@pytest.mark.parametrize("decision", [Decision.MASTER_WINS, Decision.IGNORE])
def test_a_delete_conflict_that_the_site_does_not_win_leaves_the_row_alone(decision):
    assert resolve([delete_conflict()], [custom_rule(Kind.DELETE, decision)]).ignored


def test_a_delete_conflict_that_the_site_wins_is_not_ignored():
    result = resolve(
        [delete_conflict(current={"id": 1, "price": 11})],
        [custom_rule(Kind.DELETE, Decision.SITE_WINS)],
    )
    assert result.resolved
    assert not result.ignored


def test_a_delete_conflict_without_a_routine_stays_unresolved():
    assert not resolve([delete_conflict()], [group_rule("overwrite")]).resolved


@pytest.mark.parametrize("decision", [None, 1, "site_wins"])
def test_a_routine_that_returns_rubbish_goes_to_the_next_in_sequence(decision):
    rubbish = custom_rule(Kind.UPDATE, decision)
    assert not resolve([stamped(NOON, NOON)], [rubbish]).resolved
    result = resolve([stamped(NOON, NOON)], [rubbish, group_rule("discard", 2)])
    assert result.records[0].rule.method == "discard"
    assert "does not exist" in result.records[0].passed[0].reason


def test_a_routine_that_raises_leaves_the_row_unresolved_with_the_reason():
    def routine(conflict: Conflict) -> Resolution:
        raise KeyError("price")

    register("broken", routine)
    result = resolve([stamped(NOON, NOON)], [group_rule("custom", routine="broken")])
    assert "custom: routine broken raised KeyError: 'price'" in (
        result.unresolved[0].reason
    )


def test_a_routine_that_is_not_installed_here_does_not_stop_the_queue():
    result = resolve([stamped(NOON, NOON)], [group_rule("custom", routine="elsewhere")])
    assert "No routine 'elsewhere'" in result.unresolved[0].reason


def test_the_record_holds_inputs_rule_and_result():
    conflict = stock()
    rule = group_rule("additive", group="stock")
    (record,) = resolve([conflict], [rule]).records
    assert (record.conflict, record.rule) == (conflict, rule)
    assert record.resolution.reason == "stock: 7 + (15 - 10) = 12"


def test_resolving_is_pure():
    conflicts = [stamped(NOON, NOON), stock()]
    rules = [group_rule("overwrite"), group_rule("additive", group="stock")]
    before = deepcopy((conflicts, rules))
    assert resolve(conflicts, rules) == resolve(conflicts, rules[::-1])
    assert (conflicts, rules) == before


def test_no_conflict_is_resolved():
    assert resolve([], [LATEST]).resolved


@pytest.mark.parametrize(
    ("kind", "group", "constraint"),
    [
        (Kind.UPDATE, None, None),
        (Kind.UPDATE, "sale", "products_code_key"),
        (Kind.UNIQUENESS, "sale", None),
        (Kind.UNIQUENESS, None, None),
        (Kind.DELETE, "sale", None),
        (Kind.DELETE, None, "products_code_key"),
    ],
)
def test_a_rule_has_the_subject_of_its_kind(kind, group, constraint):
    rule = Rule(
        kind=kind,
        column_group=group,
        constraint=constraint,
        sequence_no=1,
        method="discard",
    )
    with pytest.raises(RuleError) as refused:
        rule.build(["code"])
    assert refused.value.code == "SNP-120"
