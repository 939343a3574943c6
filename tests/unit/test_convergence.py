"""Which methods keep the masters equal."""

from __future__ import annotations

from typing import Any

import pytest

from masters.analysis.convergence import Finding, Severity, Topology, check, diverges
from masters.resolution import METHODS, Kind
from masters.rules import Rule, TableRules
from sites import QualifiedName

PRODUCTS = QualifiedName("public", "products")
SERVERS: dict[str, Any] = {"servers": {"hq": 1, "jfk": 2}, "server_column": "site"}

#: method -> does it diverge with 2 masters, with 2 and snapshots, with 3 (True: yes)
TABLE = {
    "additive": (False, False, False),
    "append_sequence": (True, True, True),
    "append_site_name": (True, True, True),
    "average": (True, True, True),
    "cascade": (True, True, True),
    "custom": (True, True, True),
    "discard": (True, True, True),
    "earliest_timestamp": (False, False, True),
    "ignore": (True, True, True),
    "informix_always": (True, True, True),
    "informix_delete_wins": (True, True, True),
    "informix_ignore": (True, True, True),
    "informix_timestamp": (True, True, True),
    "latest_timestamp": (False, False, False),
    "maximum": (False, False, True),
    "minimum": (False, False, True),
    "overwrite": (True, True, True),
    "priority_group": (False, False, True),
    "restore": (True, True, True),
    "site_priority": (False, True, True),
}

every_method = pytest.mark.parametrize("method", sorted(METHODS))


@every_method
def test_one_master_decides_for_all_its_snapshots(method):
    assert diverges(method, masters=1, snapshots=50) is None


@every_method
def test_several_masters_by_the_table(method):
    two, with_snapshots, three = TABLE[method]
    assert bool(diverges(method, masters=2, snapshots=0)) is two
    assert bool(diverges(method, masters=2, snapshots=3)) is with_snapshots
    assert bool(diverges(method, masters=3, snapshots=0)) is three


@every_method
def test_the_reason_is_a_sentence_without_gaps(method):
    reason = diverges(method, masters=3, snapshots=1)
    assert reason is None or ("{" not in reason and len(reason) > 30)


@pytest.mark.parametrize(
    "method", ["minimum", "maximum", "earliest_timestamp", "latest_timestamp"]
)
@pytest.mark.parametrize("tie", ["site", "master"])
def test_a_tie_that_is_not_left_open_diverges(method, tie):
    assert diverges(method, 2, 0, {"column": "price", "tie": tie})
    assert diverges(method, 1, 9, {"column": "price", "tie": tie}) is None
    assert diverges(method, 2, 0, {"column": "price", "tie": "undecided"}) is None


def test_informix_timestamp_needs_to_know_who_wrote_a_row():
    assert diverges("informix_timestamp", 3, 3, SERVERS) is None
    reason = diverges("informix_timestamp", 3, 3, {"servers": {"hq": 1}})
    assert reason is not None
    assert "server_column" in reason


def rule(
    method: str,
    sequence_no: int = 1,
    kind: Kind = Kind.UPDATE,
    group: str = "sale",
    **parameters: object,
) -> Rule:
    return Rule(
        kind=kind,
        column_group=group if kind is Kind.UPDATE else None,
        constraint="products_code_key" if kind is Kind.UNIQUENESS else None,
        sequence_no=sequence_no,
        method=method,
        parameters=parameters,
    )


def found(*rules: Rule, masters: int = 2, snapshots: int = 0) -> list[Finding]:
    table = TableRules(table=PRODUCTS, groups={"sale": ("price",)}, rules=rules)
    return check([table], {PRODUCTS: Topology(masters=masters, snapshots=snapshots)})


LATEST = rule("latest_timestamp", column="updated")


def test_the_check_says_which_table_and_rule_may_diverge_and_why():
    overwrite = rule("overwrite")
    (finding,) = found(overwrite, rule("additive", group="stock"))
    assert (finding.table, finding.rule) == (PRODUCTS, overwrite)
    assert finding.severity is Severity.WARNING
    assert "overwrite" in finding.reason


def test_rules_of_every_kind_are_checked():
    findings = found(
        rule("append_site_name", kind=Kind.UNIQUENESS, column="code"),
        rule("ignore", kind=Kind.DELETE),
    )
    assert [one.rule.method for one in findings] == ["append_site_name", "ignore"]


def test_with_one_master_there_is_nothing_to_warn_of():
    rules = [rule(name, n) for n, name in enumerate(METHODS) if "latest" not in name]
    assert found(*rules, masters=1, snapshots=20) == []


def test_a_table_that_is_not_named_has_one_master():
    table = TableRules(table=PRODUCTS, groups={}, rules=(rule("overwrite"),))
    assert check([table], {}) == []


@pytest.mark.parametrize("masters", [1, 2, 3])
def test_latest_timestamp_without_a_backup_is_noted(masters):
    (finding,) = found(LATEST, masters=masters)
    assert finding.severity is Severity.NOTE
    assert "has no backup" in finding.reason


@pytest.mark.parametrize("masters", [2, 3])
@pytest.mark.parametrize(
    "backup",
    [
        rule("site_priority", 2, column="site", priorities={"hq": 1}),
        rule("maximum", 2, column="price"),
    ],
)
def test_a_backup_that_all_masters_decide_alike_is_enough(masters, backup):
    assert found(LATEST, backup, masters=masters, snapshots=5) == []


@pytest.mark.parametrize(
    "backup",
    [
        rule("overwrite", 2),
        rule("site_priority", 2, priorities={"hq": 1}),
        rule("maximum", 2, column="price", tie="site"),
    ],
)
def test_a_backup_that_masters_decide_differently_is_warned_of(backup):
    (finding,) = found(LATEST, backup, masters=3)
    assert (finding.rule, finding.severity) == (backup, Severity.WARNING)


def test_a_backup_stands_behind_in_the_same_column_group():
    before = rule("site_priority", 0, column="site", priorities={"hq": 1})
    findings = found(before, LATEST, rule("additive", group="stock"))
    assert [one.rule for one in findings] == [LATEST]


def test_for_two_masters_a_minimum_is_noted_and_for_three_it_is_warned_of():
    minimum = rule("minimum", column="price")
    assert [one.severity for one in found(minimum)] == [Severity.NOTE]
    assert [one.severity for one in found(minimum, masters=3)] == [Severity.WARNING]


def test_restored_row_goes_to_snapshots_and_not_to_masters():
    restore = rule("restore", 1, kind=Kind.DELETE)
    behind = rule("ignore", 2, kind=Kind.DELETE)
    assert found(restore, behind, masters=1) == []
    reasons = [one.reason for one in found(restore, behind, masters=3)]
    assert len(reasons) == 2
    assert "not to the other masters" in reasons[0]


@pytest.mark.parametrize(
    ("masters", "snapshots", "noted"), [(1, 9, 0), (2, 0, 0), (2, 1, 1), (3, 0, 1)]
)
def test_who_deleted_a_row_is_not_known_to_third_sites(masters, snapshots, noted):
    newer = rule("informix_timestamp", kind=Kind.DELETE, column="updated", **SERVERS)
    findings = found(newer, masters=masters, snapshots=snapshots)
    assert [one.severity for one in findings] == [Severity.NOTE] * noted
    assert found(rule("informix_timestamp", column="updated", **SERVERS)) == []
