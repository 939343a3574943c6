"""Rows of which a page holds one image and not two: many short texts, all filled."""

from datetime import timedelta

import pytest

import deferred
import synchronous
from deferred.queues import define
from sites import Directory, Site
from sites.tables import wide
from snaptide.doctor import pages
from tests.linked_table import link, parked, rows, run, run_everywhere

NAMES = [f"c{n}" for n in range(200)]
COLUMNS = ", ".join(["id int PRIMARY KEY", *(f"{name} text" for name in NAMES)])


def _set(value: str) -> str:
    """Another value for each column, too short to be stored elsewhere."""
    return ", ".join(f"{name} = rpad('{value} {name}', 22, '.')" for name in NAMES)


def _fill(*numbers: int) -> list[str]:
    return [
        statement
        for number in numbers
        for statement in (
            f"INSERT INTO orders (id) VALUES ({number})",
            f"UPDATE orders SET {_set('new')} WHERE id = {number}",
        )
    ]


def _link(sites: Directory, *, synchronous: bool = False) -> tuple[Site, Site]:
    link(sites, "orders", COLUMNS, synchronous=synchronous)
    run_everywhere(sites, *_fill(1, 2, 3))
    return sites["hq"], sites["jfk"]


@pytest.mark.parametrize("group_max_calls", [1000, 0])
def test_wide_rows_are_pushed(sites: Directory, group_max_calls: int) -> None:
    hq, jfk = _link(sites)
    run(jfk, f"UPDATE orders SET {_set('first')} WHERE id = 1")
    run(jfk, f"UPDATE orders SET {_set('second')} WHERE id = 1")
    run(jfk, "DELETE FROM orders WHERE id = 2", *_fill(4))
    run(jfk, "UPDATE orders SET id = 30 WHERE id = 3")
    assert deferred.push(jfk, group_max_calls=group_max_calls).errors == 0
    assert [row[0] for row in rows(hq)] == [1, 30, 4]
    assert rows(hq) == rows(jfk)


def test_wide_rows_in_conflict_are_parked_and_retried(sites: Directory) -> None:
    hq, jfk = _link(sites)
    run(hq, f"UPDATE orders SET {_set('hq')} WHERE id = 1")
    run(jfk, f"UPDATE orders SET {_set('jfk')} WHERE id = 1")
    run(jfk, f"UPDATE orders SET {_set('jfk later')} WHERE id = 1")
    deferred.push(jfk)
    assert len(parked(hq)) == 2
    run(hq, f"UPDATE orders SET {_set('new')} WHERE id = 1")
    deferred.retry_errors(hq)
    assert parked(hq) == []
    assert rows(hq) == rows(jfk)


def test_wide_rows_are_changed_synchronously(sites: Directory) -> None:
    hq, jfk = _link(sites, synchronous=True)
    with synchronous.begin(jfk) as connection:
        connection.exec_driver_sql(f"UPDATE public.orders SET {_set('at once')}")
    assert [row[1] for row in rows(hq)] == ["at once c0".ljust(22, ".")] * 3
    assert rows(hq) == rows(jfk)


@pytest.mark.parametrize("older", [True, False])
def test_queue_of_an_older_version_is_found(
    sites: Directory, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    if older:
        monkeypatch.setattr(wide, "PAGE_BYTES", 1_000_000)
    _, jfk = _link(sites)
    monkeypatch.undo()
    with jfk.session() as connection:
        found = [one.subject for one in pages.check(connection, "jfk")]
    assert found == (["orders"] if older else [])


def test_nothing_is_left_of_a_wide_queue(sites: Directory) -> None:
    _, jfk = _link(sites)
    wide = (
        "SELECT count(*) FROM pg_class WHERE relname LIKE 'wide$%'"
        " AND relnamespace = 'snaptide'::regnamespace"
    )
    run(jfk, f"UPDATE orders SET {_set('jfk')}")
    [(waiting,)] = run(jfk, "SELECT bytes FROM snaptide.defbacklog")
    assert waiting > 3 * 2 * len(NAMES) * 22
    assert run(jfk, wide) == [(2,)]
    deferred.push(jfk)
    deferred.purge(jfk, retention=timedelta(0), fold_after=timedelta(0))
    assert run(jfk, 'SELECT count(*) FROM snaptide."def$_orders"') == [(0,)]
    with jfk.transaction() as connection:
        define.drop_queue(connection, "orders")
    assert run(jfk, wide) == [(0,)]
