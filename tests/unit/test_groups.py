"""Which transactions make a group, and how a group that failed is divided."""

import pytest

from deferred.batches.groups import ApplyGroup, GroupedTransactions, plan, split
from deferred.options import ErrorAction, PushOptions


def members(*calls: int, size: int = 0) -> GroupedTransactions:
    """Transactions 10, 20, ... with so many calls."""
    orders = [10 * n for n, _ in enumerate(calls, 1)]
    sizes = [size for _ in calls] if size else ()
    return GroupedTransactions(orders=orders, calls=calls, sizes=sizes)


def grouped(*calls: int, size: int = 0, alone: tuple[int, ...] = (), **options):
    """The calls of each transaction, group by group."""
    found = plan(members(*calls, size=size), 5, PushOptions(**options), alone)
    return [list(group.members.calls) for group in found]


def test_group_is_dispatched_when_the_queue_is_empty():
    assert grouped(1, 2, 3) == [[1, 2, 3]]
    assert grouped() == []


def test_b7_9_calls_as_they_were_made_fill_a_group():
    assert grouped(3, 2, 1, group_max_calls=4) == [[3], [2, 1]]
    assert grouped(1, 5, 1, 1, group_max_calls=4) == [[1], [5], [1, 1]]


def test_a_group_holds_a_batch_and_less_where_streams_divide_it():
    assert grouped(20_000, 20_000, 20_000) == [[20_000, 20_000], [20_000]]
    assert grouped(6_000, 4_000, 1, parallelism=2) == [[6_000, 4_000], [1]]
    assert grouped(2, 2, 2, parallelism=2, group_max_calls=4) == [[2, 2], [2]]


def test_bytes_fill_a_group():
    assert grouped(1, 1, 1, size=40, group_max_bytes=100) == [[1, 1], [1]]
    assert grouped(1, 1, size=400, group_max_bytes=100) == [[1], [1]]
    assert grouped(1, 1, size=400, group_max_bytes=0) == [[1, 1]]


def test_transactions_that_cannot_be_compiled_have_their_place():
    assert grouped(1, 2, 3, 4, alone=(20,)) == [[1], [2], [3, 4]]
    assert grouped(1, 2, 3, alone=(10, 20)) == [[1, 2], [3]]
    assert grouped(3, 2, 1, alone=(10, 20, 30), group_max_calls=4) == [[3], [2, 1]]
    found = plan(members(1, 1, 1, 1), 5, PushOptions(), (20, 30))
    assert [group.one_by_one for group in found] == [False, True, False]


def test_groups_follow_one_another():
    first, second = plan(members(3, 2, 1), 5, PushOptions(group_max_calls=4))
    assert (first.after, first.end, first.calls, len(first)) == (5, 10, 3, 1)
    assert (second.after, second.end, second.calls, len(second)) == (10, 30, 3, 2)


def test_group_is_divided_at_the_transactions_it_failed_for():
    group = ApplyGroup(after=5, members=members(1, 2, 3, 4, 5))
    pieces = split(group, {20, 40})
    assert [list(piece.members.calls) for piece in pieces] == [
        [1],
        [2],
        [3],
        [4],
        [5],
    ]
    pieces = split(group, {10})
    assert [(piece.after, piece.end) for piece in pieces] == [(5, 10), (10, 50)]


def test_group_is_halved_where_nobody_knows():
    group = ApplyGroup(after=5, members=members(1, 2, 3))
    pieces = split(group, ())
    assert [(piece.after, piece.end) for piece in pieces] == [(5, 10), (10, 30)]


@pytest.mark.parametrize("calls", [0, 1])
def test_no_groups_with_a_limit_of_one(calls):
    assert not PushOptions(group_max_calls=calls).grouping
    assert not PushOptions(batch_size=1).grouping
    assert PushOptions().grouping


def test_options_arrive_as_json_has_them():
    given = {"error_action": "stop", "one_by_one": ["orders"]}
    options = PushOptions.of(given)
    assert options.error_action is ErrorAction.STOP
    assert options.given == given
