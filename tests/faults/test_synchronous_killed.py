"""A coordinator is killed, or its line is cut, wherever it may be."""

import signal
from collections.abc import Callable

import pytest
from sqlalchemy import text

import synchronous
from sites import Directory
from sites.errors import SnaptideError
from tests.coordinated import coordinate, left_over, quantities
from tests.fix_proxy import Proxy
from tests.fix_worlds import prepared_once
from tests.let_go import wait_until_let_go
from tests.linked_table import link, run_everywhere

BEFORE = {1: 10, 2: 10}
AFTER = {1: 9, 2: 11}


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """Two accounts at both sites, propagated synchronously."""
    link(sites, "orders", "id int PRIMARY KEY, qty int", synchronous=True)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 10), (2, 10)")


def states(sites: Directory) -> list[dict[int, int]]:
    return [quantities(site) for site in sites.values()]


@pytest.mark.faults
@pytest.mark.parametrize(
    ("point", "end"),
    [
        ("synchronous.after_apply", BEFORE),
        ("synchronous.before_prepare", BEFORE),
        ("synchronous.after_prepare", BEFORE),
        ("synchronous.before_decision", BEFORE),
        ("synchronous.after_decision", AFTER),
        ("synchronous.after_confirm", AFTER),
    ],
)
def test_e8_15_a_killed_coordinator_leaves_all_or_nothing(
    linked: Directory, point: str, end: dict[int, int]
) -> None:
    """Killed between the two commits the master is not doubled; before, it is undone,
    and the same work done again counts once."""
    assert coordinate(linked, f"{point}:kill") == -signal.SIGKILL

    for site in linked.values():
        synchronous.recover(site)

    assert states(linked) == [end, end]
    assert left_over(linked) == {}
    if end == BEFORE:
        assert coordinate(linked) == 0
        assert states(linked) == [AFTER, AFTER]


@pytest.mark.faults
@pytest.mark.parametrize("cut_at", ["hq", "jfk"])
def test_a_line_that_is_cut_at_any_message_leaves_all_or_nothing(
    linked: Directory, make_proxy: Callable[[str], Proxy], cut_at: str
) -> None:
    """Cut before each message in turn, until none of them is left to cut."""
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in linked.items()}
    proxy = make_proxy(urls[cut_at].replace("+psycopg", ""))
    urls[cut_at] = proxy.url
    far = Directory(urls)
    messages = 0
    while True:
        messages += 1
        before = states(linked)[1]
        proxy.cut_before(messages)
        failed = _transfer(far)
        was_cut = proxy.cut_before(0)
        wait_until_let_go(linked.values())
        for site in linked.values():
            synchronous.recover(site)
        here, there = states(linked)
        assert here == there
        assert left_over(linked) == {}
        if not failed:
            assert here == {1: before[1] - 1, 2: before[2] + 1}
        far.close()
        if not was_cut:
            break
    assert messages > 10


def _transfer(sites: Directory) -> bool:
    try:
        with synchronous.begin(sites["jfk"], timeout=90) as connection:
            connection.execute(text("UPDATE orders SET qty = qty - 1 WHERE id = 1"))
            connection.execute(text("UPDATE orders SET qty = qty + 1 WHERE id = 2"))
    except Exception:
        return True
    return False


@pytest.mark.faults
def test_a_master_that_does_not_answer_in_time_is_given_up(
    linked: Directory, make_proxy: Callable[[str], Proxy]
) -> None:
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in linked.items()}
    proxy = make_proxy(urls["hq"].replace("+psycopg", ""))
    urls["hq"] = proxy.url
    far = Directory(urls)

    with synchronous.begin(far["jfk"], timeout=20) as connection:
        connection.execute(text("UPDATE orders SET qty = qty - 1 WHERE id = 1"))
        proxy.deafen()
        with pytest.raises(SnaptideError, match="hq was lost: no answer within 20 s"):
            connection.execute(text("UPDATE orders SET qty = qty + 1 WHERE id = 2"))
        connection.rollback()
    proxy.hear()
    proxy.cut()

    far.close()
    assert states(linked) == [BEFORE, BEFORE]
