"""The record of resolutions: listed, counted, purged, and played again."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import deferred
import masters
from deferred import schedules, tasks
from masters.analysis import records, replay
from masters.errors import NoSuchRecord
from masters.rules import rulebook
from sites import Directory, configured
from sites.configured import Configuration
from snaptide.cli.commands import app
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, rows, run

BOOK: dict[str, Any] = {
    "tables": {
        "orders": {
            "groups": {"amounts": ["qty", "price"], "stamp": ["at"]},
            "update": [
                {"group": "amounts", "method": "discard"},
                {"group": "stamp", "method": "overwrite"},
            ],
            "unique": [{"constraint": "orders_pkey", "method": "discard"}],
            "delete": [{"method": "ignore"}],
        }
    }
}


@prepared_once("hq", "jfk")
def settled(sites: Directory) -> None:
    """One conflict of each kind, settled."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO orders SELECT g, 'n' || g, 10, 1, 'infinity'"
            " FROM generate_series(1, 2) g",
        )
    rulebook.apply(hq, BOOK)
    run(hq, "UPDATE orders SET qty = 27 WHERE id < 3")
    run(hq, "INSERT INTO orders VALUES (3, 'theirs', 1)")
    run(jfk, "UPDATE orders SET qty = 15, price = NULL WHERE id = 1")
    run(jfk, "DELETE FROM orders WHERE id = 2")
    run(jfk, "INSERT INTO orders VALUES (3, 'mine', 2)")
    assert deferred.push(jfk).conflicts_resolved == 3


def test_list_show_and_statistics(settled: Directory) -> None:
    hq = settled["hq"]
    found = records.list_resolutions(hq)
    assert [(one.id, one.kind, one.decision) for one in found] == [
        (3, "uniqueness", "ignore"),
        (2, "delete", "ignore"),
        (1, "update", "master_wins"),
    ]
    assert found[2].result_values == {"qty": "27", "price": "1.00"}
    assert [one.id for one in records.list_resolutions(hq, method="ignore")] == [2]
    assert records.list_resolutions(hq, table="other") == []
    one, rules = records.show_resolution(hq, 1)
    assert one.rules_version == 1
    assert rules is not None
    assert rules.id == 1
    assert rules.rules == rulebook.export(hq)
    counted = records.resolution_statistics(hq, origin="jfk")
    assert sum(line.conflicts for line in counted) == 3
    assert {line.method for line in counted} == {"discard", "ignore"}


def test_conflicts_of_several_transactions_in_one_push(settled: Directory) -> None:
    """They travel as one group; the record names each."""
    hq, jfk = settled["hq"], settled["jfk"]
    run(hq, "INSERT INTO orders SELECT g, 'n' || g, 1 FROM generate_series(11, 14) g")
    as_refresh(
        jfk, "INSERT INTO orders SELECT g, 'n' || g, 1 FROM generate_series(11, 14) g"
    )
    run(hq, "UPDATE orders SET qty = 27 WHERE id > 10")
    for number in range(11, 15):
        run(jfk, f"UPDATE orders SET qty = 15 WHERE id = {number}")
    report = deferred.push(jfk)
    assert (report.transactions, report.conflicts_resolved) == (4, 4)
    found = records.list_resolutions(hq, limit=4)
    assert len({one.origin_transaction for one in found}) == 4
    assert [one.row_key["id"] for one in found] == ["14", "13", "12", "11"]


def test_purge_keeps_what_is_young(settled: Directory) -> None:
    hq = settled["hq"]
    assert records.purge_resolutions(hq, timedelta(days=1)) == 0
    run(
        hq,
        "UPDATE snaptide.resolution_record SET resolved_at = now() - interval '2 d'"
        " WHERE id = 1",
    )
    assert records.purge_resolutions(hq, timedelta(days=1)) == 1
    with pytest.raises(NoSuchRecord):
        records.show_resolution(hq, 1)


def test_replay_of_the_same_rules_ends_the_same(settled: Directory) -> None:
    found = list(replay.replay(settled["hq"], BOOK))
    assert [one.differs for one in found] == [False, False, False]


def test_replay_spells_moments_as_the_record_does(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'n1', 10, 1, '2026-01-01')")
    rule = {"group": "at", "method": "maximum", "parameters": {"column": "at"}}
    book = {"tables": {"orders": {"groups": {"at": ["at"]}, "update": [rule]}}}
    rulebook.apply(hq, book)
    run(hq, "UPDATE orders SET at = '2026-02-02'")
    run(jfk, "UPDATE orders SET at = '2026-03-03 12:00'")
    assert deferred.push(jfk).conflicts_resolved == 1
    assert [one.differs for one in replay.replay(hq, book)] == [False]


def test_replay_reads_page_by_page(
    settled: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "PAGE", 2)
    assert [one.id for one in replay.replay(settled["hq"], BOOK)] == [1, 2, 3]
    assert [one.id for one in replay.replay(settled["hq"], BOOK, limit=2)] == [1, 2]


def test_scheduled_purge_removes_old_records(
    settled: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq = settled["hq"]
    age = "UPDATE snaptide.resolution_record SET resolved_at = now() - interval '9 d'"
    run(hq, age)
    monkeypatch.setattr(configured, "_current", Configuration(directory=settled))
    schedules.schedule(hq, "purge", every="1d", record_days=10)
    tasks.purge("hq", **schedules.list_schedules(hq)[0].options)
    assert len(records.list_resolutions(hq)) == 3
    tasks.purge("hq", record_days=8)
    assert records.list_resolutions(hq) == []


def test_replay_shows_what_other_rules_would_have_done(settled: Directory) -> None:
    hq = settled["hq"]
    before = rows(hq)
    other = {
        "tables": {
            "orders": {
                "groups": {"qty": ["qty"], "price": ["price"]},
                "update": [
                    {"group": "qty", "method": "additive"},
                    {"group": "price", "method": "overwrite"},
                ],
                "unique": [{"constraint": "orders_pkey", "method": "informix_always"}],
            }
        }
    }
    update, delete, unique = replay.replay(hq, other)
    assert update.differs
    assert update.would_result == {"qty": "32", "price": None}
    assert (delete.would_method, delete.would_decision) == ("none", "no rule")
    assert unique.would_result == {"id": "3"}
    assert rows(hq) == before
    assert [one.id for one in replay.replay(hq, other, since=1, limit=1)] == [2]


def test_commands(settled: Directory, tmp_path: Path) -> None:
    hq = settled["hq"]
    url = hq.url.render_as_string(hide_password=False)
    config = tmp_path / "snaptide.toml"
    config.write_text(f'[sites.hq]\nurl = "{url}"\n')

    def command(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["--config", str(config), *words])
        assert result.exit_code == code, result.output
        return result.output

    book = tmp_path / "rules.toml"
    book.write_text(command("rules", "export", "hq"))
    assert "no change" in command("rules", "diff", "hq", str(book))
    assert "0 of 3" in command("conflicts", "replay", "hq", "--rules", str(book))
    book.write_text(book.read_text().replace('"ignore"', '"restore"'))
    assert "+ orders delete 1: restore()" in command(
        "rules", "diff", "hq", str(book), code=3
    )
    command("rules", "apply", "hq", str(book))
    assert "no change" in command("rules", "apply", "hq", str(book))
    assert len(json.loads(command("conflicts", "list", "hq", "--json"))) == 3
    assert "27" in command("conflicts", "show", "hq", "1")
    assert "discard" in command("conflicts", "stats", "hq")
    command("conflicts", "check", "hq")
    assert "orders_pkey" in command(
        "conflicts", "check", "hq", "--masters", "2", code=3
    )
    assert "0" in command("conflicts", "purge", "hq", "--older-than", "1")
    command("rules", "add-unique", "hq", "orders", "orders_name_key", "discard")
    command("rules", "remove-unique", "hq", "orders", "orders_name_key", "1")
    command("rules", "add-delete", "hq", "orders", "ignore")
    command("rules", "remove-delete", "hq", "orders", "2")
    assert "row version" in command(
        "rules", "compare", "hq", "orders", "name", "--off", "--row-version", "at"
    )
    assert masters.list_rules(hq)[0].comparison.row_version == "at"
