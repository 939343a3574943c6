"""Arrow tables in and out of a real database, and ranges of pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from psycopg import sql

from sites import Directory
from sites.conditions.ranges import ctid_ranges
from sites.names import QualifiedName
from sites.sessions.site import Site
from sites.transfer import arrow, transport
from tests.fix_db import MakeDatabase
from tests.fix_worker import eventually

VALUES = {
    "smallint": ["-32768", "32767"],
    "integer": ["-2147483648", "0"],
    "bigint": ["9223372036854775807"],
    "boolean": ["true", "false"],
    "text": ["", " padded ", "naïve 🌊 \\ \t\n%s"],
    "character varying(9)": ["", "ünï"],
    "bytea": [r"\x", r"\x00ff5c"],
    "character(4)": ["a", ""],
    "numeric": ["1.0", "1.00", "NaN", "-Infinity", "1e-30", "9" * 60],
    "numeric(10,2)": ["1.50", "-0.01"],
    "real": ["0.1", "-0", "NaN", "Infinity", "1e-45"],
    "double precision": ["0.1", "-0", "NaN", "-Infinity", "5e-324"],
    "money": ["12.34", "-0.01"],
    "date": ["4713-01-01 BC", "infinity", "2024-02-29"],
    "timestamp without time zone": ["-infinity", "2024-02-29 23:59:59.999999"],
    "timestamp with time zone": ["infinity", "0001-01-01 00:00:00+00 BC"],
    "time without time zone": ["24:00:00", "00:00:00.000001"],
    "time with time zone": ["23:59:59.999999+15:59:59"],
    "interval": ["infinity", "-1 year -2 mons +3 days 04:05:06.000007"],
    "uuid": ["00000000-0000-0000-0000-00000000000f"],
    "json": ['{"a":  1, "a": 2}'],
    "jsonb": ['{"a": 1.10}', "null"],
    "integer[]": ["{}", "[0:1]={1,NULL}", "{{1,2},{3,4}}"],
    "text[]": ['{"",NULL,"NULL","a,b\\"c"}'],
    "inet": ["::1/64"],
    "bit(3)": ["101"],
    "bit varying": ["", "1"],
    "int4range": ["empty", "[1,)"],
    "tsmultirange": ["{[2024-01-01,2024-01-02)}"],
    "point": ["(0.1,-0)"],
    "tsvector": ["'a':1A 'b c':2"],
    "pg_lsn": ["16/B374D848"],
    "xid8": ["18446744073709551615"],
    "regclass": ["pg_class"],
    "oid": ["4294967295"],
    '"char"': ["", "x"],
    "name": ["n"],
    "app.colour": ["red"],
    "app.positive": ["1.10"],
    "app.pair": ['(1,"a ""b"" , c")', "(,)"],
}

SETUP = """
CREATE SCHEMA app;
CREATE TYPE app.colour AS ENUM ('red', 'blue');
CREATE DOMAIN app.positive AS numeric CHECK (value > 0);
CREATE TYPE app.pair AS (a int, b text)
"""


@pytest.fixture
def site(make_database: MakeDatabase) -> Iterator[Site]:
    directory = Directory({"here": make_database()})
    yield directory["here"]
    directory.close()


def execute(site: Site, *statements: str | sql.Composed) -> None:
    with psycopg.connect(site.libpq_uri()) as connection:
        for statement in statements:
            connection.execute(statement)


def texts(site: Site, query: str | sql.Composed) -> list[tuple[object, ...]]:
    with psycopg.connect(site.libpq_uri()) as connection:
        return connection.execute(query).fetchall()


def _values(type_: str, version: int) -> list[str]:
    """What a server of this version knows; intervals are infinite from 17 on."""
    old = version < 17 and type_ == "interval"
    return [v for v in VALUES[type_] if not (old and v == "infinity")]


@pytest.mark.parametrize("type_", VALUES)
def test_every_type_comes_back_as_it_was(
    site: Site, type_: str, pg_version: int
) -> None:
    is_text = arrow.carrier(type_) == "text"
    names = {"type": sql.SQL(type_), "carried": sql.SQL("text" if is_text else type_)}
    execute(
        site,
        SETUP,
        sql.SQL("CREATE TABLE app.source (n int, v {type})").format(**names),
        sql.SQL("CREATE TABLE app.stage (c1 int, c2 {carried})").format(**names),
        *(
            sql.SQL("INSERT INTO app.source VALUES ({n}, {value}::{type})").format(
                n=n, value=value, **names
            )
            for n, value in enumerate([*_values(type_, pg_version), None])
        ),
    )
    query = sql.SQL("SELECT n AS c1, v::{carried} AS c2 FROM app.source").format(
        **names
    )
    read = arrow.read_table(site.libpq_uri(), query.as_string())
    assert read.schema.equals(arrow.schema(["integer", type_]))
    assert _by_texts(site, query.as_string(), read.schema).equals(read)
    assert arrow.ingest(site.libpq_uri(), "app", "stage", read) == read.num_rows
    # Compares the bytes, not what the type takes for equal.
    compare = """
        SELECT v::text, c2::text FROM app.source FULL JOIN app.stage ON c1 = n
        WHERE record_image_ne(ROW(c2::{type}), ROW(v))
    """
    assert texts(site, sql.SQL(compare).format(**names)) == []


def _by_texts(site: Site, query: str, schema: pa.Schema) -> pa.Table:
    rows = sa.select(sa.text("*")).select_from(sa.text(f"({query}) AS found"))
    with site.session() as connection:
        [printed] = transport.ask(connection, rows)
        return arrow.from_texts(printed.texts(), schema)


def test_empty_texts_are_no_nulls(site: Site) -> None:
    query = "SELECT * FROM (VALUES ('a'), (NULL), (''), (E'b\\n')) AS v (c1)"
    found = _by_texts(site, query, arrow.schema(["text"]))
    assert found["c1"].to_pylist() == ["a", None, "", "b\n"]
    assert _by_texts(site, "SELECT 1 WHERE false", arrow.schema(["text"])).num_rows == 0


def test_types_that_arrow_carries_are_few() -> None:
    native = [type_ for type_ in VALUES if arrow.carrier(type_) == "native"]
    assert native == [
        "smallint",
        "integer",
        "bigint",
        "boolean",
        "text",
        "character varying(9)",
        "bytea",
    ]
    assert arrow.carrier("character varying") == "native"
    assert arrow.carrier("integer[]") == "text"
    assert arrow.carrier("character varying(9)[]") == "text"


def test_reads_the_moment_of_an_exported_snapshot(site: Site) -> None:
    execute(site, "CREATE TABLE public.t AS SELECT 1 AS c1")
    query = "SELECT c1 FROM public.t"
    with site.connect() as exporter:
        exporter.execution_options(isolation_level="REPEATABLE READ")
        name = exporter.scalar(sa.text("SELECT pg_export_snapshot()"))
        execute(site, "INSERT INTO public.t VALUES (2)")
        then = arrow.read_table(site.libpq_uri(), query, snapshot=name)
        assert then.to_pydict() == {"c1": [1]}
    assert arrow.read_table(site.libpq_uri(), query).num_rows == 2


def test_reading_writes_nothing(site: Site) -> None:
    execute(site, "CREATE TABLE public.t (c1 int)")
    with pytest.raises(arrow.ArrowTransportFailed) as caught:
        list(
            arrow.read(
                site.libpq_uri(),
                "WITH n AS (INSERT INTO public.t VALUES (1) RETURNING c1) TABLE n",
            )
        )
    assert caught.value.facts["sqlstate"] == "25006"


@pytest.mark.parametrize("name", ["", "x", "00000001-00000002-1'; --", "1-1-1"])
def test_refuses_what_is_no_exported_snapshot(name: str) -> None:
    with pytest.raises(ValueError, match="exported snapshot"):
        list(arrow.read("postgresql://nowhere", "SELECT 1", snapshot=name))


def test_reads_in_batches_and_may_stop_early(site: Site) -> None:
    query = "SELECT i AS c1, repeat('x', 1000) AS c2 FROM generate_series(1, 50000) i"
    batches = arrow.read(site.libpq_uri(), query)
    assert next(batches).num_rows < 50_000
    batches.close()  # type: ignore[attr-defined]
    eventually(lambda: not open_transactions(site), what="the session to be over")


def test_a_failed_ingest_writes_nothing_and_lets_go(site: Site) -> None:
    execute(site, "CREATE TABLE public.t (c1 int CHECK (c1 < 10))")
    one, two = (pa.record_batch({"c1": pa.array(n, pa.int32())}) for n in ([1], [10]))
    with pytest.raises(arrow.ArrowTransportFailed) as caught:
        arrow.ingest(site.libpq_uri(), "public", "t", [one, two])
    assert caught.value.facts["sqlstate"] == "23514"

    def broken() -> Iterator[pa.RecordBatch]:
        yield one
        raise RuntimeError("the source broke off")

    reader = pa.RecordBatchReader.from_batches(one.schema, broken())
    with pytest.raises(arrow.ArrowTransportFailed, match="the source broke off"):
        arrow.ingest(site.libpq_uri(), "public", "t", reader)
    eventually(lambda: not open_transactions(site), what="the session to be over")
    execute(site, "SET LOCAL lock_timeout = '60s'; LOCK TABLE public.t")
    assert texts(site, "SELECT * FROM public.t") == []
    assert arrow.ingest(site.libpq_uri(), "public", "t", []) == 0


def test_errors_do_not_show_the_password(site: Site) -> None:
    uri = "postgresql://me:p%40ss-word@127.0.0.1:1/nowhere"
    with pytest.raises(arrow.ArrowTransportFailed) as caught:
        arrow.read_table(uri, "SELECT 1")
    assert "ss-word" not in str(caught.value)
    masked = arrow.without_password("p@ss-word p%40ss-word of me", uri)
    assert masked == "*** *** of me"


def open_transactions(site: Site) -> list[tuple[object, ...]]:
    return texts(
        site,
        "SELECT state, query FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL",
    )


def rows_by_range(
    site: Site, table: QualifiedName, parts: int | None
) -> list[list[int]]:
    with site.transaction() as connection:
        found = []
        for part in ctid_ranges(connection, table, parts):
            source = sa.table(
                part.table.name, sa.column("n"), schema=part.table.schema
            ).alias("t")
            query = part.restrict(sa.select(source.c.n), source)
            found.append(list(connection.scalars(query)))
        return found


@pytest.mark.parametrize("parts", [None, 1, 2, 7, 1000])
def test_ranges_are_the_table_once(site: Site, parts: int | None) -> None:
    execute(
        site,
        'CREATE TABLE public."odd ""name%" AS '
        "SELECT n, repeat('x', 200) FROM generate_series(1, 5000) n",
        'DELETE FROM public."odd ""name%" WHERE n % 3 = 0',
    )
    found = rows_by_range(site, QualifiedName("public", 'odd "name%'), parts)
    assert sorted(chain(*found)) == [n for n in range(1, 5001) if n % 3]
    assert {None: 1, 1: 1, 2: 2, 7: 7}.get(parts, len(found)) == len(found)


def test_an_empty_table_is_one_range(site: Site) -> None:
    execute(site, "CREATE TABLE public.t (n int)")
    assert rows_by_range(site, QualifiedName("public", "t"), 4) == [[]]


def test_each_partition_and_child_is_read_for_itself(site: Site) -> None:
    execute(
        site,
        "CREATE TABLE public.p (n int, x text) PARTITION BY RANGE (n)",
        "CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE public.p2 PARTITION OF public.p FOR VALUES FROM (10) TO (5000) "
        "PARTITION BY RANGE (n)",
        "CREATE TABLE public.p2a PARTITION OF public.p2 DEFAULT",
        "INSERT INTO public.p SELECT n, repeat('y', 300) "
        "FROM generate_series(0, 4999) n",
        "CREATE TABLE public.i (n int)",
        "CREATE TABLE public.i1 (m int) INHERITS (public.i)",
        "CREATE TABLE public.i2 () INHERITS (public.i, public.i1)",
        "INSERT INTO public.i VALUES (1)",
        "INSERT INTO public.i1 VALUES (2)",
        "INSERT INTO public.i2 VALUES (3)",
    )
    found = rows_by_range(site, QualifiedName("public", "p"), 5)
    assert sorted(chain(*found)) == list(range(5000))
    assert len(found) >= 5
    assert rows_by_range(site, QualifiedName("public", "i"), None) == [[1], [2], [3]]


def test_a_range_is_read_without_the_rest(site: Site) -> None:
    execute(
        site,
        "CREATE TABLE public.t AS SELECT n FROM generate_series(1, 9999) n",
        "ANALYZE public.t",
    )
    with site.transaction() as connection:
        middle = ctid_ranges(connection, QualifiedName("public", "t"), 4)[1]
        source = sa.table("t", sa.column("n"), schema="public")
        query = middle.restrict(sa.select(source.c.n), source)
        text = query.compile(connection, compile_kwargs={"literal_binds": True})
        plan = connection.exec_driver_sql(f"EXPLAIN {text}").scalars().all()
    assert "Tid Range Scan" in "\n".join(plan)


def test_a_reader_does_not_wait_for_ever_behind_who_waits_for_us(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We hold a weak lock, a user waits for a strong one, the reader waits for him."""
    monkeypatch.setattr(arrow, "_LOCK_TIMEOUT", "100ms")
    with site.connect() as ours, site.connect() as user:
        ours.execute(sa.text("CREATE TABLE public.held (id int)"))
        ours.commit()
        ours.execute(sa.text("LOCK TABLE public.held IN ACCESS SHARE MODE"))
        waiting = "LOCK TABLE public.held IN ACCESS EXCLUSIVE MODE"
        with ThreadPoolExecutor(1) as pool:
            locked = pool.submit(user.execute, sa.text(waiting))
            _wait_until_one_waits(ours)
            with pytest.raises(arrow.ArrowTransportFailed, match="lock timeout"):
                arrow.read_table(site.libpq_uri(), "SELECT id FROM public.held")
            ours.rollback()
            locked.result(timeout=90)
        user.rollback()


def _wait_until_one_waits(connection: sa.Connection) -> None:
    until = time.monotonic() + 90
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    while not connection.scalar(sa.text(query)):
        assert time.monotonic() < until
        time.sleep(0.05)
