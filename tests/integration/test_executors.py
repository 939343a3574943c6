"""What executors read and write: rows into Spark, and into a stage table."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa

from sites import Directory
from sites.sessions.site import Site
from sites.transfer import arrow
from tests.fix_db import MakeDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from snapshots.spark.executors import Attempt

SCHEMA = arrow.schema(["integer", "text", "boolean", "bytea", "smallint", "bigint"])

SETUP = """
CREATE TABLE public.source AS
SELECT n, 'v' || n AS v, n % 2 = 0 AS b, '\\x00ff'::bytea AS y, n::int2 AS s,
    n::int8 AS l
FROM generate_series(1, 1000) n;
UPDATE public.source SET v = NULL WHERE n = 1;
UPDATE public.source SET v = '' WHERE n = 2;
UPDATE public.source SET v = '🌊 % \\' WHERE n = 3;
CREATE UNLOGGED TABLE public."st%a""ge" (
    c1 int, c2 text, c3 boolean, c4 bytea, c5 int2, c6 int8, attempt text
)
"""
STAGE = 'st%a"ge'


@pytest.fixture
def site(make_database: MakeDatabase) -> Iterator[Site]:
    directory = Directory({"here": make_database()})
    with psycopg.connect(directory["here"].libpq_uri()) as raw:
        raw.execute(SETUP)
    yield directory["here"]
    directory.close()


SELECT = (
    "SELECT n AS c1, v AS c2, b AS c3, y AS c4, s AS c5, l AS c6 FROM public.source"
)


def queries(parts: int) -> list[str]:
    return [f"{SELECT} WHERE n % {parts} = {part}" for part in range(parts)]


def stage(site: Site) -> list[tuple[object, ...]]:
    with psycopg.connect(site.libpq_uri()) as connection:
        return connection.execute(
            'SELECT c1, c2, c3, c4, c5, c6, attempt FROM public."st%a""ge" ORDER BY c1'
        ).fetchall()


def counted(site: Site) -> list[tuple[str, int]]:
    with psycopg.connect(site.libpq_uri()) as connection:
        return connection.execute(
            'SELECT attempt, count(*) FROM public."st%a""ge" GROUP BY 1 ORDER BY 1'
        ).fetchall()


def named(attempts: list[Attempt]) -> list[tuple[str, int]]:
    return sorted((attempt.id, attempt.rows) for attempt in attempts)


@pytest.mark.parametrize("parts", [1, 3])
def test_reads_all_ranges_at_one_moment(
    spark: SparkSession, site: Site, parts: int
) -> None:
    from snapshots.spark.executors import read_ranges

    with site.connect() as exporter:
        exporter.execution_options(isolation_level="REPEATABLE READ")
        snapshot = exporter.scalar(sa.text("SELECT pg_export_snapshot()"))
        with site.begin() as writer:
            writer.execute(sa.text("DELETE FROM public.source WHERE n > 500"))
        frame = read_ranges(spark, site.libpq_uri(), queries(parts), SCHEMA, snapshot)
        assert frame.rdd.getNumPartitions() == parts
        found = frame.orderBy("c1").toArrow().to_pylist()
    assert [row["c1"] for row in found] == list(range(1, 1001))
    assert [row["c2"] for row in found[:4]] == [None, "", "🌊 % \\", "v4"]
    assert list(found[3].values()) == [4, "v4", True, b"\x00\xff", 4, 4]


def test_reads_ranges_without_rows(spark: SparkSession, site: Site) -> None:
    from snapshots.spark.executors import read_ranges

    nothing = [f"{query} AND false" for query in queries(2)]
    frame = read_ranges(spark, site.libpq_uri(), nothing, SCHEMA, None)
    assert frame.count() == 0
    assert frame.columns == SCHEMA.names


def test_writes_a_stage_and_tells_which_attempts_count(
    spark: SparkSession, site: Site
) -> None:
    from snapshots.spark.executors import read_ranges, write_stage

    frame = read_ranges(spark, site.libpq_uri(), queries(3), SCHEMA, None)
    first = write_stage(frame, site.libpq_uri(), "public", STAGE)
    assert sum(attempt.rows for attempt in first) == 1000
    assert counted(site) == named(first)
    rows = [row[:6] for row in stage(site)]
    assert rows[:2] == [
        (1, None, False, b"\x00\xff", 1, 1),
        (2, "", True, b"\x00\xff", 2, 2),
    ]
    second = write_stage(frame, site.libpq_uri(), "public", STAGE)
    assert counted(site) == named(first + second)


def test_another_thread_than_the_one_that_started_spark_writes(
    spark: SparkSession, site: Site
) -> None:
    from snapshots.spark.executors import read_ranges, write_stage

    def written() -> list[Attempt]:
        frame = read_ranges(spark, site.libpq_uri(), queries(1), SCHEMA, None)
        return write_stage(frame, site.libpq_uri(), "public", STAGE)

    with ThreadPoolExecutor(1) as thread:
        assert sum(one.rows for one in thread.submit(written).result()) == 1000


def test_writes_nothing_from_an_empty_frame(spark: SparkSession, site: Site) -> None:
    from snapshots.spark.executors import write_stage

    frame = spark.createDataFrame(SCHEMA.empty_table())
    assert write_stage(frame, site.libpq_uri(), "public", STAGE) == []
    assert stage(site) == []


def test_each_run_of_a_task_has_a_name_of_its_own(site: Site) -> None:
    from snapshots.spark.executors import written

    batch = pa.record_batch({"c1": pa.array([1, 2], pa.int32())})
    to = site.libpq_uri(), "public", STAGE
    [lost] = written(iter([batch]), *to)
    [kept] = written(iter([batch, batch]), *to)
    assert counted(site) == sorted(
        (row["attempt"], row["rows"]) for one in (lost, kept) for row in one.to_pylist()
    )
    assert (lost["rows"].to_pylist(), kept["rows"].to_pylist()) == ([2], [4])


def test_a_task_that_fails_is_told(spark: SparkSession, site: Site) -> None:
    from snapshots.spark.errors import StageFailed
    from snapshots.spark.executors import read_ranges, write_stage

    with psycopg.connect(site.libpq_uri()) as connection:
        connection.execute('ALTER TABLE public."st%a""ge" ADD CHECK (c1 <> 999)')
    frame = read_ranges(spark, site.libpq_uri(), queries(2), SCHEMA, None)
    with pytest.raises(StageFailed, match="violates check constraint"):
        write_stage(frame, site.libpq_uri(), "public", STAGE)


def test_no_plan_and_no_error_shows_the_password(
    spark: SparkSession, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    from snapshots.spark.errors import StageFailed
    from snapshots.spark.executors import read_ranges, write_stage

    uri, password = site.libpq_uri(), site.url.password
    assert password
    assert password in uri
    frame = read_ranges(spark, uri, queries(1), SCHEMA, None)
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.explain(mode=mode)
    print(frame, frame.schema)  # noqa: T201
    broken = read_ranges(spark, uri, ["SELECT 1/0 AS c1"], SCHEMA, None)
    with pytest.raises(Exception, match="division by zero") as read_error:
        broken.collect()
    with pytest.raises(StageFailed) as write_error:
        write_stage(frame, uri, "public", "absent")
    shown = "".join(capfd.readouterr())
    assert "MapInArrow" in shown
    for text in (shown, str(read_error.value), str(write_error.value)):
        assert password not in text
