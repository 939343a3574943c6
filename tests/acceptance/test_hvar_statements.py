"""What the manuals of HVAR and Informix state, one test each, named after it.

B.7 and C.6 are the lists of statements; 8 (two rows that differ in a text column
alone) does not apply.
"""

from collections.abc import Sequence
from typing import Any

import pytest

import deferred
from deferred.errors import TransactionRefused
from masters import rules
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import (
    as_refresh,
    link,
    parked,
    queued,
    rows,
    run,
    run_each,
)

T = "k int PRIMARY KEY, c int CHECK (c <> 99)"


@prepared_once("hq", "jfk")
def t(sites: Directory) -> None:
    """The table T of the examples, and a note of every row that is written at hq."""
    link(sites, "t", T, at_site="k int PRIMARY KEY, c int")
    run(
        sites["hq"],
        "CREATE TABLE written (n serial, what text, k int, c int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO written (what, k, c) VALUES"
        " (lower(TG_OP), coalesce(NEW.k, OLD.k), NEW.c); RETURN NULL; END $$",
        "CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON t"
        " FOR EACH ROW EXECUTE FUNCTION note()",
    )


def present(t: Directory, *values: str) -> None:
    """Let rows be at both sites."""
    for site in t.values():
        as_refresh(site, *(f"INSERT INTO t VALUES {value}" for value in values))
    run(t["hq"], "TRUNCATE written")


def pushed(
    t: Directory, *statements: str, **options: Any
) -> Sequence[tuple[object, ...]]:
    """What is written at hq for statements that are a transaction each."""
    run_each(t["jfk"], *statements)
    report = deferred.push(t["jfk"], **options)
    assert (report.transactions, report.errors) == (len(statements), 0)
    assert rows(t["hq"], "t") == rows(t["jfk"], "t")
    return run(t["hq"], "SELECT what, k, c FROM written ORDER BY n")


def test_b7_1_example_1_is_one_insert(t: Directory) -> None:
    assert pushed(
        t,
        "INSERT INTO t VALUES (1, 10)",
        "UPDATE t SET c = 11 WHERE k = 1",
        "DELETE FROM t WHERE k = 1",
        "INSERT INTO t VALUES (1, 12)",
        "DELETE FROM t WHERE k = 1",
        "INSERT INTO t VALUES (1, 13)",
    ) == [("insert", 1, 13)]


def test_b7_2_example_2_is_one_update(t: Directory) -> None:
    present(t, "(1, 13)")
    assert pushed(
        t,
        "UPDATE t SET c = 14 WHERE k = 1",
        "UPDATE t SET c = 15 WHERE k = 1",
        "UPDATE t SET c = 16 WHERE k = 1",
    ) == [("update", 1, 16)]


def test_b7_3_update_then_delete_leaves_no_row(t: Directory) -> None:
    present(t, "(1, 10)")
    assert pushed(
        t, "UPDATE t SET c = 11 WHERE k = 1", "DELETE FROM t WHERE k = 1"
    ) == [("delete", 1, None)]


def test_b7_4_delete_then_insert_are_both_done_the_delete_first(t: Directory) -> None:
    present(t, "(1, 10)")
    assert pushed(t, "DELETE FROM t WHERE k = 1", "INSERT INTO t VALUES (1, 20)") == [
        ("delete", 1, None),
        ("insert", 1, 20),
    ]


def test_b7_5_delete_insert_delete_is_one_delete(t: Directory) -> None:
    present(t, "(1, 10)")
    assert pushed(
        t,
        "DELETE FROM t WHERE k = 1",
        "INSERT INTO t VALUES (1, 20)",
        "DELETE FROM t WHERE k = 1",
    ) == [("delete", 1, None)]


def test_b7_6_insert_then_insert_is_invalid_and_goes_one_by_one(t: Directory) -> None:
    run(t["jfk"], "INSERT INTO t VALUES (1, 10)")
    as_refresh(t["jfk"], "DELETE FROM t")
    run_each(t["jfk"], "INSERT INTO t VALUES (1, 20)", "INSERT INTO t VALUES (2, 30)")
    report = deferred.push(t["jfk"])
    assert (report.transactions, report.errors) == (3, 1)
    assert [reason for _, reason, *_ in parked(t["hq"])] == ["conflict"]
    assert rows(t["hq"], "t") == [(1, 10), (2, 30)]


def test_b7_7_change_of_key_moves_the_full_row(t: Directory) -> None:
    """HVAR deletes and inserts it; here what refers to it follows, as at the origin."""
    present(t, "(1, 10)")
    written = pushed(t, "UPDATE t SET k = 2 WHERE k = 1", "UPDATE t SET c = 11")
    assert written == [("update", 2, 10), ("update", 2, 11)]


@pytest.mark.parametrize(("limit", "commits"), [(4, 3), (5, 3), (6, 2), (100, 1)])
def test_b7_9_groups_end_where_the_calls_would_exceed_the_limit(
    t: Directory, limit: int, commits: int
) -> None:
    """Transactions of 3, 2, 1 and 5 calls."""
    made = 0
    for calls in (3, 2, 1, 5):
        values = ", ".join(f"({made + n}, 0)" for n in range(calls))
        run(t["jfk"], f"INSERT INTO t VALUES {values}")
        made += calls
    deferred.push(t["jfk"], group_max_calls=limit)
    assert rows(t["hq"], "t") == rows(t["jfk"], "t")
    counted = 'SELECT count(DISTINCT xid) FROM snaptide."mlog$_t"'
    assert run(t["hq"], counted) == [(commits,)]


@pytest.mark.parametrize("inserts", [19, 20])
def test_b7_10_bulk_begins_at_the_threshold_counted_after_compilation(
    t: Directory, monkeypatch: pytest.MonkeyPatch, inserts: int
) -> None:
    # Two sites that meet may copy the ledger of one to the other.
    deferred.push(t["jfk"])
    run_each(
        t["jfk"], f"INSERT INTO t SELECT g, 1 FROM generate_series(1, {inserts}) g"
    )
    run_each(t["jfk"], *["UPDATE t SET c = c + 1"] * 3)
    monkeypatch.setenv("SNAPTIDE_FAULT", "transport.before_copy:error")
    if inserts < 20:
        assert deferred.push(t["jfk"]).transactions == 4
    else:
        with pytest.raises(Exception, match="before_copy"):
            deferred.push(t["jfk"])
    monkeypatch.delenv("SNAPTIDE_FAULT")
    deferred.push(t["jfk"])
    assert rows(t["hq"], "t") == rows(t["jfk"], "t")


@pytest.mark.parametrize("threshold", [1, 100])
def test_b7_11_all_before_the_bad_one_are_applied_then_the_push_stops(
    t: Directory, threshold: int
) -> None:
    run_each(t["jfk"], *_nine())
    with pytest.raises(TransactionRefused, match="check constraint"):
        deferred.push(t["jfk"], error_action="stop", retry_threshold=threshold)
    assert [k for k, _ in rows(t["hq"], "t")] == [1, 2, 3, 4]
    assert parked(t["hq"]) == []
    # Told to go on, it leaves out that one alone.
    report = deferred.push(t["jfk"], retry_threshold=threshold)
    assert (report.transactions, report.errors) == (5, 1)
    assert [k for k, _ in rows(t["hq"], "t")] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert queued(t["jfk"]) == 0


def _nine() -> list[str]:
    return [f"INSERT INTO t VALUES ({n}, {99 if n == 5 else 0})" for n in range(1, 10)]


def test_b7_12_children_that_come_before_their_parents(sites: Directory) -> None:
    link(sites, "parent", "id int PRIMARY KEY")
    link(
        sites,
        "child",
        "id int PRIMARY KEY, p int REFERENCES parent",
        at_site="id int PRIMARY KEY, p int",
    )
    run_each(
        sites["jfk"],
        "INSERT INTO child VALUES (10, 1)",
        "INSERT INTO parent VALUES (1)",
    )
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"], "child") == [(10, 1)]


def test_b7_13_a_procedure_between_transactions_parts_them(t: Directory) -> None:
    """Three dispatches in order: the group before, the procedure, the group after."""
    hq, jfk = t["hq"], t["jfk"]
    present(t, "(1, 10)")
    run(
        hq,
        "CREATE PROCEDURE note_count() LANGUAGE sql AS"
        " 'INSERT INTO written (what, c) SELECT ''procedure'', sum(c) FROM t'",
    )
    deferred.allow_procedure(hq, "note_count")
    run_each(jfk, "UPDATE t SET c = 11", "UPDATE t SET c = 12")
    with jfk.begin() as connection:
        deferred.call(connection, "note_count")
    run_each(jfk, "UPDATE t SET c = 13", "UPDATE t SET c = 14")
    assert deferred.push(jfk).errors == 0
    assert run(hq, "SELECT what, k, c FROM written ORDER BY n") == [
        ("update", 1, 12),
        ("procedure", None, 12),
        ("update", 1, 14),
    ]


@pytest.mark.parametrize("calls", [1, 100])
def test_b7_14_update_of_a_missing_row_inserts_it_by_rule(
    t: Directory, calls: int
) -> None:
    """i2di, u2di are rules for conflicts here."""
    present(t, "(1, 10)")
    rules.add_delete_resolution(t["hq"], "t", "informix_always")
    as_refresh(t["hq"], "DELETE FROM t", "TRUNCATE written")
    written = pushed(
        t,
        "UPDATE t SET c = 11 WHERE k = 1",
        "INSERT INTO t VALUES (2, 20)",
        group_max_calls=calls,
    )
    assert sorted(written, key=str) == [("insert", 1, 11), ("insert", 2, 20)]


def test_c6_11_insert_update_and_delete_send_nothing(t: Directory) -> None:
    assert (
        pushed(
            t,
            "INSERT INTO t VALUES (1, 1)",
            "UPDATE t SET c = 2",
            "DELETE FROM t",
        )
        == []
    )


def test_c6_12_three_updates_fire_triggers_once(t: Directory) -> None:
    present(t, "(1, 1)")
    run(t["jfk"], *[f"UPDATE t SET c = {c}" for c in (2, 3, 4)])
    deferred.push(t["jfk"])
    assert run(t["hq"], "SELECT what, c FROM written") == [("update", 4)]


def test_two_updates_that_lead_back_are_compared_and_not_written(t: Directory) -> None:
    present(t, "(1, 1)", "(2, 1)")
    assert pushed(t, "UPDATE t SET c = 2", "UPDATE t SET c = 1") == []
    as_refresh(t["hq"], "UPDATE t SET c = 7 WHERE k = 2")
    run_each(t["jfk"], "UPDATE t SET c = 2", "UPDATE t SET c = 1")
    assert deferred.push(t["jfk"]).errors == 2


def test_key_that_came_and_went_must_be_absent_at_the_master(t: Directory) -> None:
    as_refresh(t["hq"], "INSERT INTO t VALUES (1, 5)")
    run_each(t["jfk"], "INSERT INTO t VALUES (1, 1)", "DELETE FROM t")
    assert deferred.push(t["jfk"]).errors == 2
    assert rows(t["hq"], "t") == [(1, 5)]
