"""What a command ends with is what its help says, for those that no other test asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

import masters
import snapshots
from masters import rules
from sites import Directory
from snaptide.cli import app
from tests.fix_worker import WriteSettings
from tests.linked_table import run

Ends = Callable[..., int]


@pytest.fixture
def ends_with(sites: Directory, write_settings: WriteSettings) -> Ends:
    config = write_settings(sites)

    def call(*arguments: str, config: Any = config) -> int:
        return CliRunner().invoke(app, ["--config", str(config), *arguments]).exit_code

    return call


@pytest.fixture
def table(sites: Directory) -> Directory:
    run(
        sites["hq"],
        "CREATE TABLE orders (id int PRIMARY KEY, name text, qty int)",
        "INSERT INTO orders VALUES (1, 'a', 1)",
    )
    masters.create_snapshot_log(sites["hq"], "orders")
    return sites


def test_a_command_line_that_is_wrong_is_2(ends_with: Ends) -> None:
    for command in (
        ("errors", "delete", "hq"),
        ("errors", "retry", "hq"),
        ("push", "jfk", "--disable"),
        ("status", "--watch"),
        ("site", "check", "--repair"),
        ("schedule", "set", "jfk", "push", "--every", "1h", "-o", "transaction_count"),
        ("destination", "budget", "jfk", "hq", "--size", "much"),
        ("group", "quiet", "hq", "g", "jfk", "--why", "because"),
        ("rules", "add", "hq", "orders", "g", "additive", "-p", "column"),
        ("site",),
        ("refresh", "jfk"),
        ("push", "jfk", "--transaction-count", "-1"),
    ):
        assert ends_with(*command) == 2, command


def test_what_cannot_be_done_is_1(ends_with: Ends) -> None:
    for command in (
        ("push", "jfk", "hq"),
        ("push", "nowhere"),
        ("refresh", "jfk", "nothing"),
        ("errors", "show", "hq", "7"),
        ("errors", "delete", "hq", "7", "--yes"),
        ("errors", "delete", "hq", "7"),
        ("errors", "retry", "hq", "7"),
        ("snapshot", "drop", "jfk", "nothing"),
        ("group", "show", "hq", "nothing"),
        ("indoubt", "commit", "hq", "nothing"),
        ("rules", "apply", "hq", "no/such/file"),
        ("schedule", "remove", "jfk", "push", "hq"),
    ):
        assert ends_with(*command) == 1, command


def test_who_does_not_answer_is_4(
    sites: Directory, ends_with: Ends, write_settings: WriteSettings
) -> None:
    away = {name: site.url.set(port=1) for name, site in sites.items()}
    config = write_settings(Directory(away))
    for command in (
        ("push", "jfk"),
        ("refresh", "jfk", "g"),
        ("purge", "jfk"),
        ("status",),
        ("doctor",),
        ("site", "check"),
        ("site", "init", "hq"),
        ("log", "list", "hq"),
        ("rules", "list", "hq"),
        ("errors", "list", "hq"),
        ("errors", "delete", "hq", "--all"),
        ("indoubt", "list", "hq"),
        ("schedule", "list", "hq"),
        ("destination", "list", "jfk"),
        ("group", "list", "hq"),
        ("conflicts", "list", "hq"),
        ("snapshot", "list", "jfk"),
        ("procedure", "list", "hq"),
    ):
        assert ends_with(*command, config=config) == 4, command


def test_a_site_to_look_at_is_3(sites: Directory, ends_with: Ends) -> None:
    # The servers of tests run with fsync off, which is a finding.
    assert ends_with("doctor") == ends_with("site", "check") == 3
    assert ends_with("status") == 0


def test_a_refresh_whose_rows_the_site_refuses_is_3(
    table: Directory, ends_with: Ends
) -> None:
    jfk = table["jfk"]
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    snapshots.refresh(jfk, "orders")
    run(jfk, 'ALTER TABLE "snap$_orders" ADD CHECK (qty < 5)')
    run(table["hq"], "INSERT INTO orders VALUES (2, 'b', 9)")
    assert ends_with("refresh", "jfk", "orders") == 3
    assert ends_with("status", "jfk") == 3


def test_rules_that_would_change_are_3(
    table: Directory, ends_with: Ends, tmp_path: Any
) -> None:
    hq = table["hq"]
    file = tmp_path / "rules.toml"
    file.write_text('[tables.orders]\ngroups = {g = ["qty"]}\n')
    assert ends_with("rules", "diff", "hq", str(file)) == 3
    rules.set_column_group(hq, "orders", "g", ["qty"])
    assert ends_with("rules", "diff", "hq", str(file)) == 0


def test_rules_that_keep_masters_different_are_3(
    table: Directory, ends_with: Ends
) -> None:
    hq = table["hq"]
    assert ends_with("conflicts", "check", "hq", "--masters", "3") == 0
    rules.set_column_group(hq, "orders", "g", ["qty"])
    rules.add_update_resolution(hq, "orders", "g", "discard")
    assert ends_with("conflicts", "check", "hq", "--masters", "3") == 3


def test_a_history_without_one_of_the_sites_is_3(
    table: Directory, ends_with: Ends, write_settings: WriteSettings
) -> None:
    snapshots.create(table["jfk"], "orders", master="hq")
    snapshots.refresh(table["jfk"], "orders")
    assert ends_with("history", "orders", "1") == 0
    half = {"hq": table["hq"].url, "jfk": table["jfk"].url.set(port=1)}
    config = write_settings(Directory(half))
    assert ends_with("history", "orders", "1", config=config) == 3
