"""Finds the rows that differ between masters: by sums of buckets first, then by Spark.

Each master is read once, not once for each pair. Only rows of buckets that differ leave
their database, and only keys come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Select

from groups.check.rows import Rows
from sites.conditions import ranges
from sites.extras import pa
from sites.transfer import arrow
from snapshots import keys
from snapshots.check.compare import SLICE
from snapshots.differences import buckets, comparison, difference, large
from snapshots.differences.buckets import Differing
from snapshots.keys import FEW, Keys

_Result = TypeVar("_Result")


def sums(every: Sequence[Rows]) -> Differing:
    """Have all masters add up their rows, at the same time, and compare the sums."""
    return buckets.compared(_at_all(every, _sums), buckets.BUCKETS)


def differing(every: Sequence[Rows], found: Differing) -> Iterator[pa.Table]:
    """The rows that differ, as `snapshots.spark.diff.apart` tells them, in slices."""
    if not found.numbers:
        return
    first = every[0]
    tables = (
        _small(every, found)
        if found.rows <= comparison.most_rows(first.side, first.table.qualified)
        else _large(every, found)
    )
    if first.only is None:
        yield from tables
        return
    # A row that fulfils the condition at one master alone is at the others, too.
    for table in tables:
        names = first.key_names
        yield from of_keys(every, keys.distinct(table.select(names)))


def of_keys(every: Sequence[Rows], wanted: Keys) -> Iterator[pa.Table]:
    """The rows with these keys that differ, as `differing` tells them."""
    for some in keys.chunks(wanted):
        if some.num_rows:
            queries = [one.images_of(some) for one in every]
            yield _apart(every, queries, many=some.num_rows > FEW)


def _sums(one: Rows) -> pa.Table:
    query = buckets.sums(one.layout, list(_parts(one, parts=1)), buckets.BUCKETS)
    return one.side.read(query, arrow.schema(buckets.SUMS), many=False)


def _parts(one: Rows, *, parts: int | None = None) -> Iterator[Select[Any]]:
    table = one.table.qualified
    found = (
        ranges.ctid_ranges(one.side.at, table)
        if parts is None
        else ranges.ctid_ranges(one.side.at, table, parts=parts)
    )
    return map(one.images, found)


def _small(every: Sequence[Rows], found: Differing) -> Iterator[pa.Table]:
    queries = []
    for one in every:
        within = [
            buckets.within(query, one.layout, found) for query in _parts(one, parts=1)
        ]
        queries.append(sa.select(*sa.union_all(*within).subquery().c))
    yield _apart(every, queries, many=found.rows > FEW * len(every))


def _apart(
    every: Sequence[Rows], queries: Sequence[Select[Any]], *, many: bool
) -> pa.Table:
    layout = every[0].layout
    asked = dict(zip(map(id, every), queries, strict=True))
    tables = _at_all(
        every, lambda one: one.side.read(asked[id(one)], layout.schema, many=many)
    )
    return difference.apart(tables, layout.key, layout.columns)


def _large(every: Sequence[Rows], found: Differing) -> Iterator[pa.Table]:
    sides = []
    for one in every:
        queries = list(_parts(one))
        if not found.most:
            queries = [buckets.within(query, one.layout, found) for query in queries]
        sides.append(large.source(one.side, queries))
    layout = every[0].layout
    yield from difference.many_apart(sides, layout.schema, layout.key, SLICE)


def _at_all(every: Sequence[Rows], work: Callable[[Rows], _Result]) -> list[_Result]:
    with ThreadPoolExecutor(max_workers=len(every)) as beside:
        return list(beside.map(work, every))
