"""What comes after a delete that is newer: Informix's delete table, end to end."""

from datetime import timedelta

import pytest

import deferred
import masters
from masters.analysis import replay
from masters.analysis.records import list_resolutions
from masters.rules import rulebook
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, rows, run

LOG = 'snaptide."mlog$_orders"'
EARLIER, LATER = "now() - interval '1 hour'", "now() + interval '1 hour'"
INSERT = "INSERT INTO orders VALUES ({}, 'n{}', 10, 1, {})"
ASKS = [{"method": "informix_timestamp", "parameters": {"column": "at"}}]


@prepared_once("hq", "jfk")
def orders(sites: Directory) -> None:
    link(sites)
    for site in sites.values():
        as_refresh(site, INSERT.format(1, 1, "'2026-01-01'"))
    rulebook.apply(sites["hq"], {"tables": {"orders": {"delete": ASKS}}})


def left(orders: Directory) -> list[object]:
    """The keys that the master holds after a push, without an error."""
    deferred.push(orders["jfk"])
    assert parked(orders["hq"]) == []
    return [row[0] for row in rows(orders["hq"])]


@pytest.mark.parametrize(("stamp", "keys"), [(EARLIER, []), (LATER, [1])])
def test_c6_16_late_update_of_a_deleted_row(
    orders: Directory, stamp: str, keys: list[object]
) -> None:
    run(orders["hq"], "DELETE FROM orders")
    run(orders["jfk"], f"UPDATE orders SET qty = 15, at = {stamp}")
    assert left(orders) == keys


@pytest.mark.parametrize(("stamp", "keys"), [(EARLIER, [1]), (LATER, [1, 2])])
def test_c6_16_late_insert_of_a_deleted_key(
    orders: Directory, stamp: str, keys: list[object]
) -> None:
    run(orders["jfk"], INSERT.format(2, "late", stamp))
    run(orders["hq"], INSERT.format(2, 2, EARLIER))
    run(orders["hq"], "DELETE FROM orders WHERE id = 2")
    assert left(orders) == keys
    [record] = list_resolutions(orders["hq"])
    assert (record.kind, record.method) == ("delete", "informix_timestamp")
    assert record.deleted_at is not None
    # Other rules are asked the same, and the same again.
    same = {"tables": {"orders": {"delete": ASKS}}}
    assert [one.differs for one in replay.replay(orders["hq"], same)] == [False]


def test_insert_made_after_the_delete_is_in_no_conflict(orders: Directory) -> None:
    run(orders["hq"], INSERT.format(2, 2, EARLIER))
    run(orders["hq"], "DELETE FROM orders WHERE id = 2")
    run(orders["jfk"], INSERT.format(2, "new", EARLIER))
    assert left(orders) == [1, 2]
    assert list_resolutions(orders["hq"]) == []


def test_late_insert_is_no_conflict_where_no_rule_asks(orders: Directory) -> None:
    rulebook.apply(orders["hq"], {"tables": {"orders": {}}})
    run(orders["jfk"], INSERT.format(2, "late", EARLIER))
    run(orders["hq"], INSERT.format(2, 2, EARLIER))
    run(orders["hq"], "DELETE FROM orders WHERE id = 2")
    assert left(orders) == [1, 2]


def test_late_insert_that_may_depend_on_a_parked_one_waits(orders: Directory) -> None:
    hq, jfk = orders["hq"], orders["jfk"]
    run(hq, "UPDATE orders SET qty = 99")
    run(jfk, "UPDATE orders SET qty = 15")
    deferred.push(jfk)
    as_refresh(jfk, "UPDATE orders SET qty = 99")
    late = INSERT.format(2, "late", EARLIER)
    run(jfk, f"WITH u AS (UPDATE orders SET qty = 100) {late}")
    run(hq, INSERT.format(2, 2, EARLIER))
    run(hq, "DELETE FROM orders WHERE id = 2")
    deferred.push(jfk)
    assert [error[1] for error in parked(hq)] == ["conflict", "dependant"]
    assert [(row[0], row[2]) for row in rows(hq)] == [(1, 99)]


def test_truncate_deletes_what_the_site_had(orders: Directory) -> None:
    run(orders["hq"], "TRUNCATE orders")
    run(orders["jfk"], "UPDATE orders SET qty = 15")
    run(orders["jfk"], INSERT.format(2, 2, EARLIER))
    assert left(orders) == [2]


@pytest.mark.parametrize("group_max_calls", [1, 100])
def test_deletes_of_a_site_are_as_old_as_they_are_there(
    orders: Directory, group_max_calls: int
) -> None:
    run(orders["jfk"], INSERT.format(2, 2, EARLIER))
    for key in (1, 2):
        run(orders["jfk"], f"DELETE FROM orders WHERE id = {key}")
    made = run(
        orders["jfk"],
        "SELECT t.start_time FROM snaptide.defcall c JOIN snaptide.deftran t"
        " USING (deferred_tran_id) WHERE c.operation = 'D' ORDER BY c.callno",
    )
    deferred.push(orders["jfk"], group_max_calls=group_max_calls)
    assert run(orders["hq"], f"SELECT at FROM {LOG} WHERE kind = 'D' ORDER BY k1") == (
        made
    )


def behind(orders: Directory) -> None:
    """The log's rows are older than what any snapshot, or transaction, may see."""
    run(orders["hq"], "DELETE FROM snaptide.registered_snapshot")


def test_deletes_outlive_the_purge_of_the_log(orders: Directory) -> None:
    run(orders["hq"], "DELETE FROM orders")
    run(orders["jfk"], f"UPDATE orders SET at = {EARLIER}")
    [report] = masters.purge_snapshot_logs(orders["hq"])
    assert report.emptied == 1
    assert run(orders["hq"], f"SELECT kind::text, k1 FROM {LOG}") == [("D", 1)]
    assert left(orders) == []
    masters.purge_snapshot_logs(orders["hq"], deletes_kept=timedelta(0))
    masters.purge_snapshot_logs(orders["hq"], deletes_kept=timedelta(0))
    assert run(orders["hq"], f"SELECT kind::text, k1 FROM {LOG}") == []


def test_deletes_go_with_the_log_where_no_rule_asks(orders: Directory) -> None:
    rulebook.apply(orders["hq"], {"tables": {}})
    run(orders["hq"], "DELETE FROM orders")
    masters.purge_snapshot_logs(orders["hq"])
    assert run(orders["hq"], f"SELECT kind::text, k1 FROM {LOG}") == []
