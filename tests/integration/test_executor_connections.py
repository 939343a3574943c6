"""Executors open no more connections to a database than the settings allow."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from sites import Directory, QualifiedName
from sites.configured import Configuration, configure
from sites.sessions.site import Site
from sites.transfer import arrow
from snapshots.spark import claims
from snapshots.spark.claims import Load
from tests.linked_table import rows, run, scalar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Into how many parts the table is divided, and how many connections are allowed.
PARTS, MOST = 5, 2

#: Tasks write what Spark has shuffled, so there are as many of them as it says.
SHUFFLED = 4

SCHEMA = arrow.schema(["integer"])

PARTS_OF_T = [f"SELECT n FROM public.t WHERE n % {PARTS} = {i}" for i in range(PARTS)]


@pytest.fixture
def tables(sites: Directory) -> Directory:
    """A table of the master, a place for it, and a stage; few connections."""
    run(sites["hq"], "CREATE TABLE public.t AS SELECT generate_series(1, 100) AS n")
    run(sites["jfk"], "CREATE TABLE public.t (n int)")
    run(sites["jfk"], "CREATE UNLOGGED TABLE public.stage (c1 int, attempt text)")
    configure(Configuration(directory=sites, executor_connections=MOST))
    return sites


def _read(spark: SparkSession, site: Site) -> DataFrame:
    from snapshots.spark.executors import read_ranges

    texts = [query.replace("SELECT n ", "SELECT n AS c1 ") for query in PARTS_OF_T]
    return read_ranges(spark, site.libpq_uri(), texts, SCHEMA, None)


def test_so_many_tasks_read_all_parts(spark: SparkSession, tables: Directory) -> None:
    found = _read(spark, tables["hq"])
    assert found.rdd.getNumPartitions() == MOST
    assert sorted(row.c1 for row in found.collect()) == list(range(1, 101))


def test_so_many_tasks_write(spark: SparkSession, tables: Directory) -> None:
    from snapshots.spark.executors import write_stage

    uri = tables["jfk"].libpq_uri()
    frame = _read(spark, tables["hq"]).repartition(SHUFFLED, "c1")
    written = write_stage(frame, uri, "public", "stage")
    assert len(written) == MOST
    assert sum(one.rows for one in written) == 100
    assert scalar(tables["jfk"], "SELECT count(DISTINCT c1) FROM public.stage") == 100


def test_so_many_tasks_copy_all_ranges(spark: SparkSession, tables: Directory) -> None:
    from snapshots.spark.load import CopyJob, copy_ranges

    hq, jfk = tables["hq"], tables["jfk"]
    work = [
        CopyJob(
            select=query,
            copy="COPY public.t (n) FROM STDIN",
            into=QualifiedName("public", "t"),
            bytes=8192,
        )
        for query in PARTS_OF_T
    ]
    spark.sparkContext.setJobGroup("copy", "counted below")
    with hq.connect() as exporter:
        exporter.execution_options(isolation_level="REPEATABLE READ")
        moment = exporter.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one()
        load = Load(id=uuid.uuid4(), moment=moment)
        with jfk.transaction() as connection:
            claims.begin(connection, load)
        uris = hq.libpq_uri(), jfk.libpq_uri()
        copied = copy_ranges(lambda: spark, *uris, work, load)
    assert copied == 100
    assert sorted(rows(jfk, "t")) == [(n,) for n in range(1, 101)]
    assert _tasks(spark, "copy") == MOST


def _tasks(spark: SparkSession, group: str) -> int:
    """How many tasks the one job of a group had."""
    tracker = spark.sparkContext.statusTracker()
    [job] = tracker.getJobIdsForGroup(group)
    info = tracker.getJobInfo(job)
    assert info is not None
    [stage] = (tracker.getStageInfo(number) for number in info.stageIds)
    assert stage is not None
    return stage.numTasks
