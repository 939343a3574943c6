"""A transaction of any size: pushed, parked, retried and given up in a small memory.

`SNAPTIDE_LARGE_CALLS` says how many calls it has (5000000 takes minutes).
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import deferred
from masters.apply import settlement
from sites import Directory
from tests.linked_table import as_refresh, link, parked, queued, run
from tests.processes import Elsewhere

CALLS = int(os.environ.get("SNAPTIDE_LARGE_CALLS", "12000"))
SMALL = 1000

#: More than PostgreSQL takes as values of one statement.
MANY = 66_000

#: Megabytes that a large transaction may take more than a small one.
MORE = 15

#: Seconds that a test, and so what it does at a time, may take.
LIMIT = 300 + CALLS // 500

pytestmark = pytest.mark.timeout(LIMIT)


@pytest.fixture
def items(sites: Directory) -> Directory:
    """Rows with a parent and a unique value, as many as the transaction changes."""
    link(sites, "parent", "id int PRIMARY KEY")
    link(
        sites,
        "item",
        "id int PRIMARY KEY, parent int REFERENCES parent, name text UNIQUE, v int",
    )
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO parent SELECT g FROM generate_series(0, 9) g",
            "INSERT INTO item SELECT g, g % 10, 'n' || g, 0"
            f" FROM generate_series(1, {CALLS}) g",
            "ANALYZE item",
        )
    return sites


def memory(sites: Directory, function: Callable[..., object], *given: object) -> int:
    """Call a function with the sites in a process of its own; its peak memory in MB."""
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in sites.items()}
    status, peak = Elsewhere(_peak, urls, function, *given).end(seconds=LIMIT)
    assert status == 0, peak
    return int(peak) // 1024


def _peak(urls: dict[str, str], function: Callable[..., object], *given: object) -> int:
    with Directory(urls) as sites:
        function(sites, *given)
    status = Path("/proc/self/status").read_text().splitlines()
    # Of this process alone; what getrusage() tells begins with the parent's.
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def push(sites: Directory) -> None:
    deferred.push(sites["jfk"])


def give_up(sites: Directory) -> None:
    deferred.delete_errors(sites["hq"])


def retry_edited(sites: Directory, error: int, call: int) -> None:
    edit = deferred.Edit(call=call, column="v", value="5")
    deferred.retry_errors(sites["hq"], [error], edits=[edit])


def test_memory_does_not_grow_with_the_calls(items: Directory) -> None:
    """Parked as a conflict, as a dependant, retried as edited, and pushed whole."""
    hq, jfk = items["hq"], items["jfk"]
    as_refresh(hq, "UPDATE item SET v = 9 WHERE id = 1")
    run(jfk, f"UPDATE item SET v = 1 WHERE id <= {SMALL}")
    small = memory(items, push)
    memory(items, give_up)
    as_refresh(jfk, "UPDATE item SET v = 0")

    run(jfk, "UPDATE item SET v = 1")
    peaks = [memory(items, push)]
    run(jfk, "UPDATE item SET v = v + 1")
    peaks.append(memory(items, push))
    assert [(e[1], len(e[3])) for e in parked(hq)] == [
        ("conflict", 0),
        ("dependant", 1),
    ]
    assert run(hq, "SELECT count(*) FROM snaptide.error_call") == [(2 * CALLS,)]

    first = parked(hq)[0][0]
    in_conflict = "SELECT call_no FROM snaptide.error_call WHERE conflict IS NOT NULL"
    [(number,)] = run(hq, in_conflict)
    peaks.append(memory(items, retry_edited, first, number))
    assert run(hq, "SELECT v, count(*) FROM item GROUP BY v ORDER BY v") == [
        (1, CALLS - 1),
        (5, 1),
    ]
    peaks.append(memory(items, give_up))
    assert parked(hq) == []
    for table in ("error_call", "error_footprint"):
        assert run(hq, f"SELECT count(*) FROM snaptide.{table}") == [(0,)]

    as_refresh(hq, "UPDATE item SET v = 2")
    run(jfk, "UPDATE item SET v = 3, name = 'm' || id")
    peaks.append(memory(items, push))
    assert queued(jfk) == 0
    assert run(hq, "SELECT count(*) FROM item WHERE v = 3") == [(CALLS,)]
    assert max(peaks) - small < MORE, (small, peaks)


def test_hopeless_transaction_is_not_looked_at_to_its_end(
    items: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many conflicts are named, and no more; all calls are kept."""
    hq, jfk = items["hq"], items["jfk"]
    monkeypatch.setattr(settlement, "ENOUGH", 500)
    monkeypatch.setattr("masters.apply.alike.MANY", 1_000)
    as_refresh(hq, "UPDATE item SET v = 9")
    run(jfk, f"UPDATE item SET v = 1 WHERE id <= {5 * SMALL}")
    assert deferred.push(jfk).errors == 1
    found = "SELECT count(*), count(conflict) FROM snaptide.error_call"
    calls, named = run(hq, found)[0]
    assert calls == 5 * SMALL
    assert 500 <= named < 5 * SMALL


def test_more_rows_are_skipped_than_a_statement_takes_values(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "t", "id int PRIMARY KEY, v int")
    for site in (hq, jfk):
        fill = f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {MANY}) g"
        as_refresh(site, fill, "ANALYZE t")
    as_refresh(hq, "UPDATE t SET v = 9 WHERE id > 1")
    run(jfk, "UPDATE t SET v = 1")
    assert deferred.push(jfk, error_action="skip_row").errors == 1
    assert run(hq, "SELECT v, count(*) FROM t GROUP BY v ORDER BY v") == [
        (1, 1),
        (9, MANY - 1),
    ]
    assert run(hq, "SELECT count(*) FROM snaptide.error_call") == [(MANY - 1,)]


def test_more_transactions_are_given_up_than_a_statement_takes_values(
    sites: Directory,
) -> None:
    hq = sites["hq"]
    run(
        hq,
        "INSERT INTO snaptide.error_transaction (origin_id, origin, origin_transaction,"
        " origin_user, batch_no, order_no, reason, error_code, error_message)"
        " SELECT gen_random_uuid(), 'jfk', g::text, 'ann', 1, g, 'error', '23514', 'no'"
        f" FROM generate_series(1, {MANY}) g",
    )
    assert deferred.delete_errors(hq, origin="jfk") == MANY
    assert parked(hq) == []
