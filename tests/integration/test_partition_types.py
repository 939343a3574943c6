"""Values of every type in partition columns: no row of a condition is missed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import sql
from sqlalchemy import Connection, column, select
from sqlalchemy import table as of

import masters
from masters.errors import CannotPartition
from masters.log import catalog
from sites import QualifiedName, Site, names
from sites.conditions import subqueries, where
from sites.tables.table import describe
from sites.transfer.types import NativeType
from snapshots.differences import own_keys
from tests.integration.test_capture_key_types import CODE
from tests.integration.test_equal_keys import blind
from tests.linked_table import run
from tests.type_samples import SAMPLES

T = QualifiedName("public", "t")
CHANGE = "UPDATE t SET n = n + 1"

#: Those of extensions, and what a server may be built without, are left out.
BUILT_IN = sorted(SAMPLES.keys() - {"halfvec", "sparsevec", "vector", "xml"})

#: Types without a hash of their own.
REFUSED = {
    *("bit", "box", "circle", "json", "jsonpath", "line", "lseg", "money", "path"),
    *("pg_snapshot", "point", "polygon", "tsquery", "tsvector", "txid_snapshot"),
    *("varbit", "refcursor", "gtsvector"),
    *(kind for kind in SAMPLES if kind.endswith("range")),
    # Compared and hashed as another type.
    "cidr",
    *(kind for kind in SAMPLES if kind.startswith("reg")),
}


def make(hq: Site, declared: str, *values: str) -> None:
    """A table with a column of a type, and these values and NULL in it."""
    run(hq, f"CREATE TABLE t (id serial PRIMARY KEY, c {declared}, n int DEFAULT 0)")
    for value in values:
        insert = sql.SQL("INSERT INTO t (c) VALUES ({}), (NULL)")
        run(hq, insert.format(sql.Literal(value)).as_string())


def chosen(connection: Connection, condition: str) -> tuple[set[int], set[int] | None]:
    """The rows of a condition, and those that the log is read for; None for all."""
    log = catalog.logs_since(connection, [T], None)[T]
    found = where.canonical(connection, T, condition).text
    snapshot: Any = SimpleNamespace(
        columns=("id", "c", "n"), parts=subqueries.parts(found, T)
    )
    wanted = own_keys.values(connection, snapshot, describe(connection, T), log)
    table = catalog.rows_of(log.log_table, [NativeType("bigint")], wanted)
    read = connection.scalars(
        select(table.c.k1).where(*own_keys.restricting(table, wanted, "3:3:"))
    )
    row = of("t", column("id"), schema="public")
    rows = connection.scalars(select(row.c.id).where(where.clause(found)))
    return {*rows}, {*read} if wanted else None


@pytest.mark.parametrize("kind", BUILT_IN)
def test_every_type(hq: Site, kind: str) -> None:
    declared = names.quoted(kind)
    make(hq, declared, *SAMPLES[kind])
    if kind in REFUSED:
        with pytest.raises(CannotPartition):
            masters.create_snapshot_log(hq, "t", partition_columns=["c"])
        return
    masters.create_snapshot_log(hq, "t", partition_columns=["c"])
    run(hq, CHANGE)
    every = [f"{literal(one)}::{declared}" for one in SAMPLES[kind]]
    with hq.session() as connection:
        for value in every:
            there, read = chosen(connection, f"c = {value}")
            assert there, value
            assert read is not None, value
            assert there <= read, value
            # NULL and most other values are left out.
            assert len(read) < 2 * len(every), value
        there, read = chosen(connection, f"c IN ({', '.join(every)})")
        assert read is not None
        assert len(there) == len(every)
        assert there <= read


def literal(value: str) -> str:
    return sql.Literal(value).as_string()


@pytest.mark.parametrize(
    ("declared", "values", "condition", "narrowed"),
    [
        ("character(3)", ["a", "b"], "c = 'a  '", True),
        ("character(3)", ["a", "b"], "c::text = 'a'", False),
        ("varchar(3)", ["a", "b"], "c = 'a'", True),
        ("varchar(3)", ["a", "b"], "c IN ('a', 'x')", True),
        ('text COLLATE "C"', ["a", "b"], "c = 'a'", True),
        ("text", ["a", "b"], "c COLLATE \"C\" = 'a'", False),
        ("numeric(5,2)", ["1", "2"], "c = 1", True),
        ("numeric(5,2)", ["1", "2"], "c IN (1.000, 3)", True),
        ("numeric", ["1", "2"], "c::int = 1", False),
        ("smallint", ["1", "2"], "c = 1::bigint", True),
        ("bigint", ["1", "2"], "c IN (1, 7)", True),
        ("bigint", ["1", "2"], "c::numeric = 1.0", False),
        ("real", ["-0", "1"], "c = 0::double precision", True),
        ("double precision", ["-0", "1"], "c = 0", True),
        ("double precision", ["1.1", "1"], "c::real = 1.1::real", False),
        ("timestamp", ["2020-01-01", "2021-01-01"], "c = date '2020-01-01'", False),
        ("boolean", ["t", "f"], "c = true", True),
        ("int[]", ["{1}", "{2}"], "c = '{1}'", None),
        ("jsonb", ['{"a": 1.0}', "2"], "c = '{\"a\": 1}'", True),
        ("mood", ["on", "off"], "c = 'on'", True),
        ("mood", ["on", "off"], "c IN ('on', 'off')", True),
        ("small", ["1", "2"], "c = 1", True),
        ("short", ["a", "b"], "c = 'a'", True),
        ("short", ["a", "b"], "c IN ('a', 'z')", True),
        ("text", ["it's %s", "b"], "c = 'it''s %s'", True),
    ],
)
def test_values_that_are_compared_in_other_ways(
    hq: Site, declared: str, values: list[str], condition: str, narrowed: bool | None
) -> None:
    run(
        hq,
        "CREATE TYPE mood AS ENUM ('on', 'off')",
        "CREATE DOMAIN small AS int CHECK (value > 0)",
        "CREATE DOMAIN short AS varchar(3)",
    )
    make(hq, declared, *values)
    if narrowed is None:
        with pytest.raises(CannotPartition):
            masters.create_snapshot_log(hq, "t", partition_columns=["c"])
        return
    masters.create_snapshot_log(hq, "t", partition_columns=["c"])
    run(hq, CHANGE)
    with hq.session() as connection:
        there, read = chosen(connection, condition)
    assert there
    assert (read is not None) == narrowed
    assert read is None or there <= read


def test_types_of_extensions_are_refused(hq: Site) -> None:
    run(hq, *CODE.split(";"))
    make(hq, "code", "(a)")
    with pytest.raises(CannotPartition, match=r"are compared by public\.="):
        masters.create_snapshot_log(hq, "t", partition_columns=["c"])


def test_collations_that_take_different_texts_for_equal(hq: Site) -> None:
    blind(hq)
    make(hq, "text COLLATE blind", "a")
    with pytest.raises(CannotPartition, match="treats different texts as equal"):
        masters.create_snapshot_log(hq, "t", partition_columns=["c"])


def test_a_type_of_a_schema_that_is_called_like_the_table(hq: Site) -> None:
    run(hq, "CREATE SCHEMA t", "CREATE TYPE t.mood AS ENUM ('on', 'off')")
    make(hq, "t.mood", "on", "off")
    masters.create_snapshot_log(hq, "t", partition_columns=["c"])
    run(hq, CHANGE)
    with hq.session() as connection:
        there, read = chosen(connection, "c = 'on'::t.mood")
    assert read == there


def test_values_that_no_index_could_hold(hq: Site) -> None:
    run(hq, "CREATE TABLE t (id int PRIMARY KEY, c text)")
    masters.create_snapshot_log(hq, "t", partition_columns=["c"])
    run(
        hq,
        "INSERT INTO t SELECT 1, string_agg(md5(n::text), '')"
        " FROM generate_series(1, 1000) n",
    )
    assert run(hq, 'SELECT k1, "p$c" <> 1 FROM snaptide."mlog$_t"') == [(1, True)]
