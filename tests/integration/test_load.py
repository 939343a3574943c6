"""The first load: ranges piped from database to database by Spark's tasks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

import masters
import snapshots
from sites import Directory
from sites.catalog import metadata
from sites.conditions import ranges
from sites.conditions.ranges import ctid_ranges
from sites.names import QualifiedName
from sites.sessions.site import Site
from sites.transfer.transport import literal_text
from snapshots.spark import claims
from tests.fix_db import MakeDatabase
from tests.linked_table import rows, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from snapshots.spark.load import CopyJob

SOURCE = """
CREATE TABLE public.t AS SELECT n, v FROM (
    SELECT n, CASE n WHEN 1 THEN NULL WHEN 2 THEN '' WHEN 3 THEN E'🌊\\t\\n\\\\%s"'
        ELSE 'v' || n END AS v
    FROM generate_series(1, 5000) n
)
"""


@pytest.fixture
def directory(make_database: MakeDatabase) -> Iterator[Directory]:
    from snapshots.spark import catalog

    directory = Directory(
        {"hq": make_database("hq"), "branch": make_database("branch")}
    )
    with directory["branch"].transaction() as connection:
        connection.execute(sa.schema.CreateSchema("snaptide"))
        metadata.create_all(connection, [catalog.load_range])
    run(directory["hq"], SOURCE)
    run(directory["branch"], "CREATE TABLE public.copied (n int, v text)")
    yield directory
    directory.close()


def ledger(site: Site) -> int:
    from snapshots.spark.catalog import load_range

    with site.connect() as connection:
        return (
            connection.scalar(sa.select(sa.func.count()).select_from(load_range)) or 0
        )


def jobs(connection: sa.Connection, parts: int) -> list[CopyJob]:
    from snapshots.spark.load import CopyJob

    source = sa.table("t", sa.column("n"), sa.column("v"), schema="public")
    return [
        CopyJob(
            select=literal_text(part.restrict(sa.select(source), source)),
            copy="COPY public.copied (n, v) FROM STDIN",
            into=QualifiedName("public", "copied"),
            bytes=part.bytes,
        )
        for part in ctid_ranges(connection, QualifiedName("public", "t"), parts)
    ]


@contextmanager
def moment(site: Site) -> Iterator[tuple[sa.Connection, str]]:
    """A transaction of the master, and the name of its snapshot."""
    with site.connect() as exporter:
        exporter.execution_options(isolation_level="REPEATABLE READ")
        yield exporter, str(exporter.scalar(sa.text("SELECT pg_export_snapshot()")))


def begun(site: Site, snapshot: str = "00000001-00000001-1") -> claims.Load:
    load = claims.Load(id=uuid.uuid5(uuid.NAMESPACE_OID, "copied"), moment=snapshot)
    with site.transaction() as connection:
        claims.begin(connection, load)
    return load


@pytest.mark.parametrize("parts", [1, 3])
def test_copies_the_table_of_one_moment(
    spark: SparkSession, directory: Directory, parts: int
) -> None:
    from snapshots.spark.load import copy_ranges

    hq, branch = directory["hq"], directory["branch"]
    told: list[tuple[int, int | None, str]] = []
    with moment(hq) as (exporter, snapshot):
        work = jobs(exporter, parts)
        assert len(work) == parts
        expected = rows(hq, "t")
        run(hq, "DELETE FROM public.t WHERE n % 2 = 0")
        load = begun(branch, snapshot)
        copied = copy_ranges(
            lambda: spark,
            hq.libpq_uri(),
            branch.libpq_uri(),
            work,
            load,
            lambda *now: told.append(now),
        )
    assert copied == 5000
    assert rows(branch, "copied") == expected
    assert told[-1] == (5000, 5000, "rows")
    assert ledger(branch) == 1 + parts
    with branch.transaction() as connection:
        assert claims.end(connection, load)
    assert ledger(branch) == 0


def _not_started() -> SparkSession:
    raise AssertionError("Spark is started.")


def test_no_ranges_are_no_rows(directory: Directory) -> None:
    from snapshots.spark.load import copy_ranges

    uri = directory["branch"].libpq_uri()
    load = begun(directory["branch"])
    assert copy_ranges(_not_started, uri, uri, [], load) == 0


def test_a_small_range_needs_no_spark(directory: Directory) -> None:
    from snapshots.spark.load import copy_ranges

    hq, branch = directory["hq"], directory["branch"]
    with moment(hq) as (exporter, snapshot):
        uris = hq.libpq_uri(), branch.libpq_uri()
        work = jobs(exporter, 1)
        assert copy_ranges(_not_started, *uris, work, begun(branch, snapshot)) == 5000
    assert rows(branch, "copied") == rows(hq, "t")


def test_a_large_range_is_copied_by_spark(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from snapshots.spark import load as loads

    hq, branch = directory["hq"], directory["branch"]
    with moment(hq) as (exporter, snapshot):
        uris = hq.libpq_uri(), branch.libpq_uri()
        work = jobs(exporter, 1)
        monkeypatch.setattr(loads, "SMALL", 0)
        with pytest.raises(AssertionError, match="Spark is started"):
            loads.copy_ranges(_not_started, *uris, work, begun(branch, snapshot))
    assert rows(branch, "copied") == []
    assert ledger(branch) == 0


@pytest.mark.parametrize("parts", [1, 3])
def test_a_range_that_fails_ends_the_load(
    spark: SparkSession, directory: Directory, parts: int
) -> None:
    from snapshots.spark.errors import LoadFailed
    from snapshots.spark.load import copy_range, copy_ranges

    hq, branch = directory["hq"], directory["branch"]
    run(branch, "ALTER TABLE public.copied ADD CHECK (n <> 4999)")
    with moment(hq) as (exporter, snapshot):
        load = begun(branch, snapshot)
        work = jobs(exporter, parts)
        uris = hq.libpq_uri(), branch.libpq_uri()
        with pytest.raises(LoadFailed, match="check constraint"):
            copy_ranges(lambda: spark, *uris, work, load)
        before = rows(branch, "copied")
        # A task that Spark gave up may still come: the load is over.
        assert copy_range(*uris, work[0], load, 1) == 0
    assert rows(branch, "copied") == before
    assert ledger(branch) == 0


def test_a_partition_that_runs_twice_writes_once(directory: Directory) -> None:
    from snapshots.spark.load import copy_range

    hq, branch = directory["hq"], directory["branch"]
    written: list[int] = []
    with moment(hq) as (exporter, snapshot):
        load = begun(branch, snapshot)
        [job] = jobs(exporter, 1)

        def attempt() -> None:
            uris = hq.libpq_uri(), branch.libpq_uri()
            written.append(copy_range(*uris, job, load, 1))

        runs = [threading.Thread(target=attempt) for _ in range(4)]
        for each in runs:
            each.start()
        for each in runs:
            each.join()
        attempt()
    assert sorted(written) == [0, 0, 0, 0, 5000]
    assert len(rows(branch, "copied")) == 5000


def test_a_task_of_another_moment_writes_nothing(directory: Directory) -> None:
    """A process that was believed dead goes on, while another one loads the table."""
    from snapshots.spark.load import copy_range

    hq, branch = directory["hq"], directory["branch"]
    uris = hq.libpq_uri(), branch.libpq_uri()
    with moment(hq) as (exporter, early), moment(hq) as (_, late):
        [job] = jobs(exporter, 1)
        first = begun(branch, early)
        with branch.transaction() as connection:
            claims.forget(connection, first.id)
        second = begun(branch, late)
        assert copy_range(*uris, job, first, 1) == 0
        with branch.transaction() as connection:
            assert not claims.end(connection, first)
        assert copy_range(*uris, job, second, 1) == 5000
    with branch.transaction() as connection:
        assert claims.done(connection, second) == {1: 5000}
        assert claims.end(connection, second)
    assert ledger(branch) == 0


def test_bytes_travel_as_the_servers_hold_them(
    hq: Site, sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rows of which all values but the keys are stored apart, in several parts."""
    monkeypatch.setattr(ranges, "PART_BYTES", 2**20)
    run(
        hq,
        "CREATE TABLE f (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), b bytea,"
        " t text, at timestamptz)",
        "ALTER TABLE f ALTER b SET STORAGE EXTERNAL",
        "INSERT INTO f (b, t, at) SELECT decode(repeat(md5(n::text), 1000), 'hex'),"
        " 'ä' || n, 'infinity' FROM generate_series(1, 300) n",
        "INSERT INTO f (b) VALUES (NULL), (''), ('\\x00ff5c0a')",
    )
    with hq.transaction() as connection:
        assert len(ctid_ranges(connection, QualifiedName("public", "f"))) > 1
    masters.create_snapshot_log(hq, "f")
    snapshots.create(sites["jfk"], "f", master="hq", group="g")
    [report] = snapshots.refresh(sites["jfk"], "g").snapshots
    assert report.inserted == 303
    every = "SELECT * FROM f ORDER BY id"
    assert run(sites["jfk"], every) == run(hq, every)


@pytest.mark.parametrize("parts", [1, 2])
def test_errors_do_not_show_passwords(
    spark: SparkSession, directory: Directory, parts: int
) -> None:
    from snapshots.spark.errors import LoadFailed
    from snapshots.spark.load import CopyJob, copy_ranges

    branch = directory["branch"]
    source = "postgresql://me:hunter2@127.0.0.1:1/nowhere"
    job = CopyJob(
        select="SELECT 1",
        copy="COPY public.copied (n) FROM STDIN",
        into=QualifiedName("public", "copied"),
        bytes=8192,
    )
    with pytest.raises(LoadFailed) as caught:
        copy_ranges(
            lambda: spark, source, branch.libpq_uri(), [job] * parts, begun(branch)
        )
    assert "hunter2" not in str(caught.value)
    assert "Connection refused" in str(caught.value) or "failed" in str(caught.value)
