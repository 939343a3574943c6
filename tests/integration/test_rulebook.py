"""Rules from a file: all at once, or not at all; each change is a version."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from masters import rules
from masters.errors import BadRulebook, RuleError, UnknownColumn, UnknownConstraint
from masters.rules import rulebook
from sites import Directory, Site
from sites.errors import UnknownTable
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.let_go import WAITS
from tests.linked_table import link, run

BOOK: dict[str, Any] = {
    "tables": {
        "public.orders": {
            "groups": {"amounts": ["qty", "price"], "who": ["name"]},
            "not_compared": {"update": ["at"]},
            "update": [
                {"group": "amounts", "method": "discard"},
                {"group": "who", "method": "overwrite"},
            ],
            "unique": [{"constraint": "orders_name_key", "method": "discard"}],
            "delete": [{"method": "restore"}, {"method": "ignore"}],
        }
    }
}


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    link(sites)


def test_what_is_applied_is_what_is_exported(hq: Site) -> None:
    changes = rulebook.apply(hq, BOOK)
    assert len(changes) == 8
    assert rulebook.diff(hq, BOOK) == []
    assert rulebook.diff(hq, rulebook.export(hq)) == []
    [one] = rules.list_rules(hq)
    assert [rule.method for rule in one.rules if rule.reference == ""] == [
        "restore",
        "ignore",
    ]
    assert one.comparison.not_at_update == ("at",)


def test_difference_is_shown_and_nothing_written(hq: Site) -> None:
    rulebook.apply(hq, BOOK)
    smaller = {"tables": {"public.orders": {"groups": {"who": ["name"]}}}}
    changes = rulebook.diff(hq, smaller)
    assert "- orders delete 1: restore()" in changes
    assert all(line.startswith("-") for line in changes)
    assert rulebook.diff(hq, BOOK) == []


def test_each_change_is_a_version(hq: Site) -> None:
    rules.set_column_group(hq, "orders", "g", ["qty"])
    rules.add_update_resolution(hq, "orders", "g", "discard")
    rulebook.apply(hq, BOOK)
    rulebook.apply(hq, BOOK)
    versions = run(hq, "SELECT id, what FROM snaptide.rules_version ORDER BY id")
    assert [number for number, _ in versions] == [1, 2, 3]
    assert rules.list_rules(hq)[0].version == 3
    [(kept,)] = run(hq, "SELECT rules FROM snaptide.rules_version WHERE id = 3")
    assert kept == rulebook.export(hq)


def test_a_later_version_is_committed_later(hq: Site) -> None:
    """Who has seen a version may take it that nothing before it is still to come."""
    with ThreadPoolExecutor(1) as pool, hq.transaction() as first:
        rulebook.note(first, "first", {})
        second = pool.submit(rules.set_column_group, hq, "orders", "g", ["qty"])
        until = time.monotonic() + 90
        while not run(hq, "SELECT 1 FROM pg_locks WHERE NOT granted"):
            assert not second.done()
            assert time.monotonic() < until
            time.sleep(0.05)
        first.commit()
        second.result(timeout=90)
    [*_, (what,)] = run(hq, "SELECT what FROM snaptide.rules_version ORDER BY id")
    assert what != "first"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"update": [{"group": "none", "method": "discard"}]}, RuleError),
        ({"unique": [{"constraint": "none", "method": "discard"}]}, UnknownConstraint),
        ({"delete": [{"method": "latest_timestamp"}]}, RuleError),
        ({"delete": [{"methods": "ignore"}]}, BadRulebook),
        ({"groups": {"a": ["qty"], "b": ["qty"]}}, BadRulebook),
        ({"groups": {"a": ["none"]}}, RuleError),
        ({"row_version": "none"}, RuleError),
        ({"rules": []}, BadRulebook),
        (
            {"delete": [{"method": "ignore", "sequence": 2}, {"method": "ignore"}]},
            None,
        ),
        (
            {"delete": [{"method": "ignore"}, {"method": "restore", "sequence": 1}]},
            BadRulebook,
        ),
    ],
)
def test_file_that_is_wrong_changes_nothing(
    hq: Site, body: dict[str, Any], error: type[Exception] | None
) -> None:
    rulebook.apply(hq, BOOK)
    book = {"tables": {"public.orders": body}}
    if error is None:
        rulebook.apply(hq, book)
        return
    with pytest.raises(error):
        rulebook.apply(hq, book)
    assert rulebook.diff(hq, BOOK) == []


def test_rules_that_outlive_their_table_stop_nothing(hq: Site) -> None:
    run(hq, "CREATE TABLE gone (id int PRIMARY KEY, n int, s text UNIQUE)")
    gone: dict[str, Any] = {
        "groups": {"g": ["n"]},
        "update": [{"group": "g", "method": "additive"}],
        "delete": [{"method": "ignore"}],
    }
    book = {"tables": {**BOOK["tables"], "gone": gone}}
    rulebook.apply(hq, book)
    run(hq, "DROP TABLE gone")
    assert rulebook.diff(hq, rulebook.export(hq)) == []
    # What a file says of other tables is not stopped by it, and it stays as it is.
    less = {"groups": {"amounts": ["qty"]}}
    assert rulebook.apply(hq, {"tables": {"orders": less, "gone": gone}})
    assert rulebook.diff(hq, {"tables": {"orders": less, "gone": gone}}) == []
    # Until a file leaves it out.
    changed = {"tables": {"orders": less, "gone": {**gone, "delete": []}}}
    with pytest.raises(UnknownTable):
        rulebook.diff(hq, changed)
    with pytest.raises(UnknownTable):
        rulebook.diff(hq, {"tables": {"never": {}}})
    rulebook.apply(hq, {"tables": {"orders": less}})
    assert list(rulebook.export(hq)["tables"]) == ["orders"]


def test_rules_that_outlive_a_column_stop_no_other_table(hq: Site) -> None:
    run(hq, "CREATE TABLE other (id int PRIMARY KEY, n int)")
    rules.set_column_group(hq, "other", "g", ["n"])
    rulebook.apply(hq, book := {"tables": {**BOOK["tables"], **_other("n")}})
    run(hq, "ALTER TABLE other DROP COLUMN n")
    assert rulebook.diff(hq, rulebook.export(hq)) == []
    assert rulebook.diff(hq, book) == []
    assert rulebook.apply(hq, {"tables": _other("n")})
    with pytest.raises(UnknownColumn):
        rulebook.apply(hq, {"tables": _other("m")})


def _other(column: str) -> dict[str, Any]:
    return {"other": {"groups": {"g": [column]}}}


def test_a_parameter_that_is_null_is_not_given(hq: Site) -> None:
    """A file could not say it, and would differ for ever from what it was made of."""
    rules.set_column_group(hq, "orders", "g", ["qty"])
    rules.add_update_resolution(
        hq, "orders", "g", "maximum", parameters={"column": "qty", "tie": None}
    )
    [rule] = rulebook.export(hq)["tables"]["orders"]["update"]
    assert rule["parameters"] == {"column": "qty"}


def test_two_changes_at_once_leave_a_column_in_one_group(hq: Site) -> None:
    """Both wait, at the latest when they write, until neither is alone in reading."""
    with ThreadPoolExecutor(2) as pool:
        with hq.transaction() as readers:
            readers.execute(text("LOCK TABLE snaptide.column_group IN SHARE MODE"))
            made = [
                pool.submit(rules.set_column_group, hq, "orders", name, ["qty", name])
                for name in ("price", "name")
            ]
            waiting = f"SELECT count(*) = 2 FROM ({WAITS}) AS waiting"
            eventually(lambda: run(hq, waiting) == [(True,)])
        for one in made:
            one.result()
    [found] = rules.list_rules(hq)
    assert sorted(map(len, found.groups.values())) == [1, 2]
    assert sum(("qty" in columns) for columns in found.groups.values()) == 1
