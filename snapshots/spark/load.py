"""Copies rows by Spark's tasks: a snapshot's first load, the tables of a new master.

A task pipes COPY of one database into COPY of another and looks at no value in
between. Spark may run a task twice, at once or one after the other, even after
the load has ended: each range is one transaction at the target, which claims
the range before it copies (`snapshots.spark.claims`).

A single small range is copied by this process: Spark would take longer to start a task
than to copy it, and may not have started itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg import sql
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlalchemy import Connection, NullPool, create_engine, make_url

from sites import QualifiedName
from sites.configured import executor_connections
from sites.progress import Progress
from sites.sessions import full
from sites.sessions.exchange import raw
from sites.tables.users_triggers import silenced
from sites.transfer import arrow
from sites.transfer.transport import hand_on
from snapshots.spark import claims
from snapshots.spark.catalog import load_range
from snapshots.spark.claims import Load
from snapshots.spark.errors import LoadFailed, of_task

_POLL_SECONDS = 0.5

#: Copying so many bytes takes about as long as starting a task.
SMALL = 8 * 2**20

#: How a range fails: in a task of Spark, or in this process.
_FAILURES = (PySparkException, psycopg.Error, sa.exc.DBAPIError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """One range of a table, or a whole one; written in one transaction."""

    #: A query at the source, without COPY.
    select: str
    #: `COPY table (columns) FROM STDIN` at the target.
    copy: str
    #: that table; no trigger of a user fires there
    into: QualifiedName
    #: about how many bytes it reads
    bytes: int
    #: both sides have the same types, whose values travel as the servers hold them
    binary: bool = False
    #: settings of the transaction at the target, by name
    settings: Mapping[str, str] = field(default_factory=dict)
    #: jobs that are copied in the same transaction, after this one
    then: tuple[CopyJob, ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether a task would take longer to start than to copy it."""
        return sum(one.bytes for one in (self, *self.then)) <= SMALL


def copy_ranges(
    start: Callable[[], SparkSession],
    source_uri: str,
    target_uri: str,
    jobs: Sequence[CopyJob],
    load: Load,
    progress: Progress | None = None,
) -> int:
    """Copy ranges from one database to another; commits each one there.

    If all are there, the load goes on until the caller ends it, with what makes the
    table one that is loaded.

    Parameters:
        start: gives the session of Spark, for all but a single small range.
        source_uri, target_uri: as `Site.libpq_uri()` gives them; the target has
            the schema `snaptide`.
        jobs: together they copy all rows, each row once.
        load: it has begun (`claims.begin`). Its moment is exported by a transaction
            at the source that stays open until this returns; all ranges see it.
        progress: called twice a second from another thread, and at the end.

    Returns:
        How many rows were written.

    Raises:
        LoadFailed: a range failed. Others may be in the table, but no task of
            this load writes to it any more: it can be emptied.
        NoConnectionFree: a task found none; the same holds.
    """
    rows = 0
    try:
        with _reported(target_uri, load, progress):
            if len(jobs) == 1 and jobs[0].is_small:
                rows = copy_range(source_uri, target_uri, jobs[0], load, 1)
            elif jobs:
                task = _task(source_uri, target_uri, jobs, load)
                _run(start(), task, len(jobs))
        if not rows:  # or there is one range, which this process has copied
            with _begin(target_uri) as connection:
                rows = _finished(connection, load, len(jobs))
    except BaseException as error:
        with _begin(target_uri) as connection:
            claims.end(connection, load)
        if not isinstance(error, _FAILURES):
            raise
        said = _safe(error, source_uri, target_uri)
        name = type(error).__name__
        raise of_task(LoadFailed, said, raised=name, load_id=load.id) from None
    if progress is not None:
        progress(rows, rows, "rows")
    return rows


def copy_range(
    source_uri: str,
    target_uri: str,
    job: CopyJob,
    load: Load,
    number: int,
) -> int:
    """Copy one range in one transaction, unless it is copied or the load is over.

    Returns:
        How many rows were written by this call.
    """
    with _begin(target_uri) as target:
        if not claims.is_open(target, load):
            return 0
        if not claims.claims(target, load, number):
            return 0
        for name, value in job.settings.items():
            target.execute(sa.select(sa.func.set_config(name, value, True)))
        jobs = (job, *job.then)
        with silenced(target, (one.into for one in jobs)):
            rows = _pipe(source_uri, raw(target), jobs, load.moment)
        claims.note(target, load, number, rows)
        return rows


def _pipe(
    source_uri: str,
    target: psycopg.Connection[tuple[object, ...]],
    jobs: Sequence[CopyJob],
    moment: str,
) -> int:
    with full.wait_for(
        lambda: psycopg.connect(source_uri, prepare_threshold=None)
    ) as source:
        source.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        source.read_only = True
        begin = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(moment))
        source.execute(begin)
        return sum(_copy(source, target, job) for job in jobs)


def _copy(
    source: psycopg.Connection[tuple[object, ...]],
    target: psycopg.Connection[tuple[object, ...]],
    job: CopyJob,
) -> int:
    form = sql.SQL(" (FORMAT binary)" if job.binary else "")
    out = sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(job.select)) + form
    into = sql.SQL(job.copy) + form
    with source.cursor() as reader, target.cursor() as writer:
        with reader.copy(out) as rows, writer.copy(into) as sink:
            hand_on(rows, sink.write)
        return writer.rowcount


def _task(
    source_uri: str, target_uri: str, jobs: Sequence[CopyJob], load: Load
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def copy_numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            rows = [
                copy_range(source_uri, target_uri, jobs[n - 1], load, n)
                for n in numbers
            ]
            yield pa.RecordBatch.from_pydict({"rows": pa.array(rows, pa.int64())})

    return copy_numbered


def _run(
    spark: SparkSession,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ranges: int,
) -> None:
    tasks = min(ranges, executor_connections())
    numbers = spark.range(1, ranges + 1, 1, numPartitions=tasks)
    numbers.mapInArrow(task, "rows bigint").collect()


def _finished(connection: sa.Connection, load: Load, ranges: int) -> int:
    """Count the rows that were written, and check that no range is missing."""
    if not claims.is_open(connection, load):
        raise LoadFailed("Another process has begun to fill the table.")
    done = claims.done(connection, load)
    if len(done) != ranges:
        raise LoadFailed(f"{ranges - len(done)} of {ranges} ranges are missing.")
    return sum(done.values())


@contextmanager
def _reported(uri: str, load: Load, progress: Progress | None) -> Iterator[None]:
    """Report how far the load is while the block runs."""
    if progress is None:
        yield
        return
    over = threading.Event()
    poller = threading.Thread(
        target=_poll, args=(uri, load, progress, over), daemon=True
    )
    poller.start()
    try:
        yield
    finally:
        over.set()
        poller.join()


def _poll(uri: str, load: Load, progress: Progress, over: threading.Event) -> None:
    rows = sa.select(sa.func.coalesce(sa.func.sum(load_range.c.rows), 0)).where(
        load_range.c.load_id == load.id
    )
    while not over.wait(_POLL_SECONDS):
        with _begin(uri) as connection:
            done = int(connection.scalar(rows) or 0)
        progress(done, None, "rows")


def _safe(error: Exception, *uris: str) -> str:
    text = str(error)
    for uri in uris:
        text = arrow.without_password(text, uri)
    return text


@contextmanager
def _begin(uri: str) -> Iterator[Connection]:
    """A connection of its own, in a transaction that commits at the end.

    Parameters:
        uri: as `Site.libpq_uri()` gives it; tasks have no `Site`.
    """
    url = make_url(uri).set(drivername="postgresql+psycopg")
    engine = create_engine(
        url, poolclass=NullPool, connect_args={"prepare_threshold": None}
    )
    with full.wait_for(engine.connect) as connection, connection.begin():
        yield connection
