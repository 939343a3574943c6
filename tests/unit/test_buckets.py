"""Which buckets differ by their sums, and how many buckets a table has."""

import pytest

from sites.extras import pa
from sites.transfer import arrow
from snapshots.differences import buckets
from snapshots.differences.buckets import BUCKETS, MOST_BUCKETS, SUMS, Differing

SHAPE = arrow.schema(SUMS)


def sums(*rows: tuple[int, int, int, int]) -> pa.Table:
    """What a side finds: number, rows, and two sums of each bucket."""
    found = [dict(zip(SHAPE.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(found, schema=SHAPE)


def test_buckets_that_differ_in_any_sum_are_found_with_their_rows() -> None:
    there = sums((0, 3, 1, 1), (1, 2, 5, 5), (2, 4, 6, 6), (3, 7, 8, 8), (4, 1, 2, 2))
    here = sums((0, 3, 1, 1), (1, 2, 5, 9), (2, 4, 7, 6), (3, 8, 8, 8), (9, 5, 2, 2))
    assert buckets.compared([there, here], 16) == Differing(
        numbers=(1, 2, 3, 4, 9), of=16, rows=4 + 8 + 15 + 1 + 5, counts=(17, 22)
    )


def test_a_bucket_has_to_be_equal_at_all_sides() -> None:
    found = buckets.compared([sums((1, 2, 5, 5), (2, 1, 1, 1))] * 2 + [sums()], 4)
    assert (found.numbers, found.rows, found.counts) == ((1, 2), 6, (3, 3, 0))
    assert found.most
    equal = buckets.compared([sums((1, 2, 5, 5))] * 3, 4)
    assert (equal.numbers, equal.rows, equal.most) == ((), 0, False)
    assert buckets.compared([sums(), sums()], 4).counts == (0, 0)


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        (None, BUCKETS),
        (BUCKETS * 8 - 1, BUCKETS),
        (BUCKETS * 8, BUCKETS * 2),
        (10**9, MOST_BUCKETS),
    ],
)
def test_a_large_table_has_more_buckets(rows: int | None, number: int) -> None:
    assert buckets.enough(rows) == number
