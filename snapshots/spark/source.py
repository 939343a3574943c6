"""The one Python Data Source: rows of databases in and out of Spark, as Arrow.

No jar: the Python workers speak to the database themselves. All of them read
the same moment, that of a snapshot which the driver's own connection exported.
Rows that they write go to a stage table and carry the attempt that wrote them:
Spark may run a task twice, and a task that failed late has written as well.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sites.configured import executor_connections
from sites.transfer import arrow
from snapshots.spark.catalog import stage_attempt
from snapshots.spark.connection import begin
from snapshots.spark.errors import StageFailed, of_task

#: Under this name Spark's redaction hides the connection string, which holds a
#: password, in plans and logs.
_SECRET = "secret_uri"


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
    spark.dataSource.register(SnaptideSource)
    reader = (
        spark.read.format(SnaptideSource.name())
        .schema(from_arrow_schema(schema))
        .option(_SECRET, uri)
        .option("queries", json.dumps(_shared_out(queries)))
    )
    return (reader if snapshot is None else reader.option("snapshot", snapshot)).load()


def write_stage(
    df: DataFrame, uri: str, schema: str, table: str, load_id: uuid.UUID
) -> list[Attempt]:
    """Add the rows of a frame to a stage table; commits there.

    No more tasks write than executors may open connections.

    Parameters:
        uri: of the database with the stage, which has the schema `snaptide`.
        schema, table: the stage: the columns of `df` and `attempt text`.
        load_id: new for each call; names its rows in `snaptide.stage_attempt`.

    Returns:
        The attempts whose rows count. Rows of others do not count; rows that
        are missing were lost with a crash of the server.

    Raises:
        StageFailed: a task or the record of the attempts failed.
    """
    _make_active(df.sparkSession)
    df.sparkSession.dataSource.register(SnaptideSource)
    writer = (
        df.coalesce(executor_connections())
        .write.format(SnaptideSource.name())
        .mode("append")
        .option(_SECRET, uri)
        .option("stage_schema", schema)
        .option("stage_table", table)
        .option("load_id", str(load_id))
    )
    try:
        writer.save()
    except PySparkException as error:
        raise of_task(StageFailed, arrow.without_password(str(error), uri)) from None
    return attempts(uri, load_id)


def _make_active(spark: SparkSession) -> None:
    """Let a write of this thread find the data source.

    Spark looks for it in the session that is active in the thread, and a session is
    active in the thread that started it. In any other, `createDataFrame` makes it so.
    """
    spark.createDataFrame([], "n int")


def attempts(uri: str, load_id: uuid.UUID) -> list[Attempt]:
    """The attempts of a load that `snaptide.stage_attempt` holds."""
    found = sa.select(stage_attempt.c.attempt, stage_attempt.c.rows).where(
        stage_attempt.c.load_id == load_id
    )
    with begin(uri) as connection:
        rows = connection.execute(found).all()
    return [Attempt(id=attempt, rows=count) for attempt, count in rows]


class SnaptideSource(DataSource):
    """The data source that Spark uses for the format `snaptide`."""

    @classmethod
    def name(cls) -> str:
        return "snaptide"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(self.options)


def _shared_out(queries: Sequence[str]) -> list[Sequence[str]]:
    """The queries of each task: not more tasks than executors may open connections."""
    tasks = min(len(queries), executor_connections())
    return [queries[number::tasks] for number in range(tasks)]


@dataclass
class _Queries(InputPartition):
    texts: Sequence[str]


class _Reader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._uri = options[_SECRET]
        self._queries = json.loads(options["queries"])
        self._snapshot = options.get("snapshot")

    def partitions(self) -> Sequence[InputPartition]:
        return [_Queries(texts) for texts in self._queries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Queries)
        for text in partition.texts:
            yield from arrow.read(self._uri, text, snapshot=self._snapshot)


@dataclass
class _Written(WriterCommitMessage):
    attempt: str
    rows: int


class _Writer(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._uri = options[_SECRET]
        self._stage = options["stage_schema"], options["stage_table"]
        self._load_id = uuid.UUID(options["load_id"])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: add its rows, marked with a name that no other run has."""
        attempt = uuid.uuid4().hex
        first = next(iterator, None)
        if first is None:
            return _Written(attempt=attempt, rows=0)
        batches = _marked(first, iterator, attempt)
        reader = pa.RecordBatchReader.from_batches(_with_attempt(first.schema), batches)
        rows = arrow.ingest(self._uri, *self._stage, reader)
        return _Written(attempt=attempt, rows=rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """When all tasks are done: record which runs count.

        Spark calls this in a process of its own that ends with it, so the
        record goes to the database, from where the merge reads it.
        """
        written = [
            {"load_id": self._load_id, "attempt": message.attempt, "rows": message.rows}
            for message in messages
            if isinstance(message, _Written) and message.rows
        ]
        if written:
            with begin(self._uri) as connection:
                connection.execute(sa.insert(stage_attempt), written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """When a task failed: rows without a recorded attempt do not count."""


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
