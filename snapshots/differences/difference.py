"""Has Spark find the changes that make a snapshot equal to its defining query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sites.configured import NotConfigured, configured
from snapshots.differences.shared_job import Pair, SharedJobs, pack

if TYPE_CHECKING:
    import pyarrow as pa


def session() -> Any:
    """The Spark session of this process, as it was configured.

    Only `snapshots.spark` knows its type.
    """
    # Imported late: most commands do not need Spark, which takes seconds.
    from snapshots.spark.session import session as start

    try:
        settings = configured()
    except NotConfigured:
        return start()
    return start(settings.spark_master, **settings.spark_conf)


@contextmanager
def _comparing() -> Iterator[Any]:
    """The Spark session, for a comparison.

    Raises:
        SparkError: Spark did not start, or failed in the block.
    """
    from snapshots.spark.session import told

    spark = session()
    with told("compare rows"):
        yield spark


def is_warm() -> bool:
    """Whether Spark runs in this process; starting it takes seconds."""
    from snapshots.spark.session import is_running

    return is_running()


def is_elsewhere() -> bool:
    """Whether the session that runs is on a server of Spark Connect."""
    from snapshots.spark.session import is_elsewhere

    return is_elsewhere()


def small(pairs: Sequence[Pair]) -> list[pa.Table]:
    """Compare images that this process holds, all in one job (`snapshots.spark.diff`).

    Other threads may share the job. If all sides are empty, no session is started.
    """
    from snapshots.spark import diff

    there = [pair for pair in pairs if pair.rows]
    tables = iter(_jobs.differences(there) if there else ())
    return [
        next(tables) if pair.rows else diff.empty(pair.master.schema, pair.columns)
        for pair in pairs
    ]


def _in_one_job(pairs: Sequence[Pair]) -> list[pa.Table]:
    if len(pairs) > 1:
        packed = pack(pairs)
        return packed.unpack(_compare(packed.pair))
    return [_compare(pair) for pair in pairs]


#: The jobs that all refreshes of this process share.
_jobs = SharedJobs(_in_one_job)


def _compare(pair: Pair) -> pa.Table:
    from snapshots.spark import diff

    with _comparing() as spark:
        return diff.small(spark, pair.master, pair.present, pair.key, pair.columns)


def rows(pairs: Sequence[Pair]) -> list[pa.Table]:
    """Which rows differ of images that this process holds, all compared in one job.

    Each table is as `snapshots.spark.diff.rows` returns it.
    """
    if len(pairs) > 1:
        packed = pack(pairs)
        return packed.unpack_rows(_compare_rows(packed.pair))
    return [_compare_rows(pair) for pair in pairs]


def _compare_rows(pair: Pair) -> pa.Table:
    from snapshots.spark import diff

    with _comparing() as spark:
        return diff.small_rows(spark, pair.master, pair.present, pair.key, pair.columns)


def many_rows(
    master: Side, present: Side, shape: pa.Schema, key: list[str], most: int
) -> Iterator[pa.Table]:
    """Which rows differ of images that executors read, in slices.

    Parameters:
        most: about how many rows a slice has.
    """
    from snapshots.spark import diff

    with _comparing() as spark:
        theirs, ours = _frames(spark, (master, present), shape)
        found = diff.rows(theirs, ours, key, shape.names)
        yield from diff.in_slices(found, key, most)


def apart(
    tables: Sequence[pa.Table], key: Sequence[str], columns: Sequence[str]
) -> pa.Table:
    """Which rows are not the same in several tables that this process holds.

    As `snapshots.spark.diff.apart` finds them.
    """
    from snapshots.spark import diff

    with _comparing() as spark:
        return diff.small_apart(spark, tables, key, columns)


def many_apart(
    sides: Sequence[Side], shape: pa.Schema, key: Sequence[str], most: int
) -> Iterator[pa.Table]:
    """Which rows are not the same in images that executors read, in slices.

    Parameters:
        most: about how many rows a slice has.
    """
    from snapshots.spark import diff

    with _comparing() as spark:
        frames = _frames(spark, sides, shape)
        found = diff.apart(diff.numbered(frames), len(frames), key, shape.names)
        yield from diff.in_slices(found, key, most)


@dataclass(frozen=True, slots=True)
class Side:
    """Images that executors read: from where, by which queries, at which moment."""

    uri: str
    queries: list[str]
    moment: str


@dataclass(frozen=True, slots=True)
class Target:
    """The stage that executors write to, at the site of the present images."""

    schema: str
    table: str


def staged(
    master: Side,
    present: Side,
    shape: pa.Schema,
    key: list[str],
    target: Target,
    *,
    twice: bool,
) -> dict[str, int]:
    """Compare images that executors read, and have them stage the difference.

    Parameters:
        twice: a row of the master may be read by two ways, and duplicates are dropped;
            this takes a third of the time.

    Returns:
        The attempts whose rows count, with how many rows each has written.
    """
    from snapshots.spark import diff, executors

    with _comparing() as spark:
        theirs, ours = _frames(spark, (master, present), shape)
        if twice:
            theirs = theirs.dropDuplicates(key)
        found = diff.diff(theirs, ours, key, shape.names)
        written = executors.write_stage(found, present.uri, target.schema, target.table)
    return {attempt.id: attempt.rows for attempt in written}


def _frames(spark: Any, sides: Sequence[Side], shape: pa.Schema) -> list[Any]:
    from snapshots.spark import executors

    return [
        executors.read_ranges(spark, side.uri, side.queries, shape, side.moment)
        for side in sides
    ]
