"""What executors read and write: rows of databases in and out of Spark, as Arrow.

No jar: the Python workers speak to the database themselves. All of them read the same
moment, that of a snapshot which the driver's own connection exported. Rows that they
write go to a stage table and carry the attempt that wrote them: Spark may run a task
twice, and a task that failed late has written as well. Of each part, Spark hands the
driver the answer of one attempt.

What a task runs travels with the plan, so that no process but Python workers needs
Snaptide: neither the driver of a server of Spark Connect, nor the one that plans.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sites.configured import executor_connections
from sites.transfer import arrow
from snapshots.spark.errors import StageFailed, of_task

#: What runs in a task, from batches to batches.
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run of a task whose rows in the stage count."""

    id: str
    rows: int


def read_ranges(
    spark: SparkSession,
    uri: str,
    queries: Sequence[str],
    schema: pa.Schema,
    snapshot: str | None,
) -> DataFrame:
    """The rows of several queries of one database.

    Each is read by a task of its own, if the executors may open so many connections.

    Parameters:
        uri: as `Site.libpq_uri()` gives it.
        queries: each reads a part of the rows, and returns the columns of `schema`.
        schema: as `sites.transfer.arrow.schema()` makes it.
        snapshot: exported by a transaction that stays open until all is read.
    """
    shared = _shared_out(queries)
    numbers = spark.range(0, len(shared), 1, numPartitions=len(shared))
    task = _read_task(uri, shared, snapshot)
    return numbers.mapInArrow(task, from_arrow_schema(schema))


def write_stage(df: DataFrame, uri: str, schema: str, table: str) -> list[Attempt]:
    """Add the rows of a frame to a stage table; commits there.

    No more tasks write than executors may open connections.

    Parameters:
        uri: of the database with the stage.
        schema, table: the stage: the columns of `df` and `attempt text`.

    Returns:
        The attempts whose rows count. Rows of others do not count; rows that
        are missing were lost with a crash of the server.

    Raises:
        StageFailed: a task failed.
    """
    parts = df.coalesce(executor_connections())
    task = _write_task(uri, schema, table)
    try:
        written = parts.mapInArrow(task, "attempt string, rows bigint").collect()
    except PySparkException as error:
        raise of_task(StageFailed, arrow.without_password(str(error), uri)) from None
    return [Attempt(id=attempt, rows=rows) for attempt, rows in written]


def _shared_out(queries: Sequence[str]) -> list[Sequence[str]]:
    """The queries of each task: not more tasks than executors may open connections."""
    tasks = min(len(queries), executor_connections())
    return [queries[number::tasks] for number in range(tasks)]


def _read_task(uri: str, shared: Sequence[Sequence[str]], snapshot: str | None) -> Task:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for query in shared[number]:
                    yield from arrow.read(uri, query, snapshot=snapshot)

    return read


def _write_task(uri: str, schema: str, table: str) -> Task:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from written(batches, uri, schema, table)

    return write


def written(
    batches: Iterator[pa.RecordBatch], uri: str, schema: str, table: str
) -> Iterator[pa.RecordBatch]:
    """In a task: add its rows, marked with a name that no other run has.

    Yields:
        That name and how many rows there were, unless there were none.
    """
    first = next(batches, None)
    if first is None:
        return
    attempt = uuid.uuid4().hex
    marked = _marked(first, batches, attempt)
    reader = pa.RecordBatchReader.from_batches(_with_attempt(first.schema), marked)
    rows = arrow.ingest(uri, schema, table, reader)
    yield pa.RecordBatch.from_pydict(
        {"attempt": pa.array([attempt]), "rows": pa.array([rows], pa.int64())}
    )


def _marked(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], attempt: str
) -> Iterator[pa.RecordBatch]:
    schema = _with_attempt(first.schema)
    for batch in _chained(first, rest):
        mark = pa.repeat(pa.scalar(attempt), batch.num_rows)
        yield pa.RecordBatch.from_arrays([*batch.columns, mark], schema=schema)


def _chained(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _with_attempt(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field("attempt", pa.string()))
