"""The difference of two sets of rows, in Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from snapshots import SparkError
from snapshots.differences import difference
from snapshots.differences.shared_job import Pair

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        ("c1", pa.int32()),
        ("c2", pa.string()),
        ("c3", pa.string()),
        ("c4", pa.bool_()),
        ("c5", pa.binary()),
    ]
)
COLUMNS = SCHEMA.names
KEY = ["c1", "c2"]

Row = tuple[object, ...]


def rows(*values: Row) -> pa.Table:
    columns = list(zip(*values, strict=True)) or [()] * len(SCHEMA)
    arrays = [
        pa.array(column, SCHEMA.field(i).type) for i, column in enumerate(columns)
    ]
    return pa.table(arrays, schema=SCHEMA)


def changes(spark: SparkSession, master: pa.Table, present: pa.Table) -> list[Row]:
    from snapshots.spark.diff import small

    found = small(spark, master, present, KEY, COLUMNS)
    assert found.column_names == ["op", *COLUMNS]
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def test_rows_behind_a_piece_without_any(spark: SparkSession) -> None:
    first, last = (rows((n, "a", "x", None, None)) for n in (1, 2))
    pieces = pa.concat_tables([rows(), first, rows(), rows(), last])
    assert changes(spark, pieces, rows()) == [
        ("I", 1, "a", "x", None, None),
        ("I", 2, "a", "x", None, None),
    ]
    assert changes(spark, pieces, pieces) == []


def test_tells_inserts_updates_and_deletes_and_drops_equal_rows(
    spark: SparkSession,
) -> None:
    same = (1, "a", "same", True, b"\x00\xff")
    master = rows(same, (2, "b", "new", None, None), (3, "c", "there", False, b""))
    present = rows(same, (2, "b", "old", None, None), (4, "d", "gone", True, b"x"))
    assert changes(spark, master, present) == [
        ("D", 4, "d", None, None, None),
        ("I", 3, "c", "there", False, b""),
        ("U", 2, "b", "new", None, None),
    ]


def test_null_is_a_value_of_its_own(spark: SparkSession) -> None:
    nothing = (1, "null on both sides", None, None, None)
    master = rows(nothing, (2, "", None, None, None), (3, "", "", None, b""))
    present = rows(nothing, (2, "", "", None, None), (3, "", None, None, None))
    assert changes(spark, master, present) == [
        ("U", 2, "", None, None, None),
        ("U", 3, "", "", None, b""),
    ]


def test_texts_that_look_alike_differ(spark: SparkSession) -> None:
    texts = ["Å", "A\u030a", "ß", "SS", "1.0", "1.00", " x", "x", "x ", "🌊", "a\tb\n"]
    master = rows(*((i, text, text, None, None) for i, text in enumerate(texts)))
    moved = [*texts[1:], texts[0]]
    present = rows(
        *(
            (i, a, b, None, None)
            for i, (a, b) in enumerate(zip(texts, moved, strict=True))
        )
    )
    found = changes(spark, master, present)
    assert [row[:4] for row in sorted(found, key=lambda row: str(row[1]).zfill(3))] == [
        ("U", i, text, text) for i, text in enumerate(texts)
    ]


@pytest.mark.parametrize(("side", "op"), [("master", "I"), ("present", "D")])
def test_one_side_is_empty(spark: SparkSession, side: str, op: str) -> None:
    one, none = rows((7, "k", "v", True, b"")), rows()
    master, present = (one, none) if side == "master" else (none, one)
    [found] = changes(spark, master, present)
    assert found[:3] == (op, 7, "k")


def test_two_empty_sides_start_no_job() -> None:
    from snapshots.spark.diff import small

    found = small(None, rows(), rows(), KEY, COLUMNS)  # type: ignore[arg-type]
    assert found.num_rows == 0
    assert found.schema.names == ["op", *COLUMNS]


def test_ten_thousand_rows(spark: SparkSession) -> None:
    def table(version: int, first: int) -> pa.Table:
        return rows(
            *(
                (i, f"k{i}", f"v{i}.{version if i % 10 == 0 else 0}", None, None)
                for i in range(first, 10_000)
            )
        )

    found = changes(spark, table(1, 0), table(0, 5))
    assert [sum(row[0] == op for row in found) for op in "IUD"] == [5, 999, 0]


def test_many_partitions_give_the_same(spark: SparkSession) -> None:
    from snapshots.spark.diff import diff

    master = rows(*((i, "k", str(i % 7), None, None) for i in range(500)))
    present = rows(*((i, "k", str(i % 5), None, None) for i in range(100, 600)))
    expected = changes(spark, master, present)
    frames = [spark.createDataFrame(side).repartition(5) for side in (master, present)]
    found = diff(frames[0], frames[1], KEY, COLUMNS).collect()
    as_bytes = [tuple(row) for row in found]
    assert sorted(as_bytes, key=repr) == expected


def test_a_table_of_keys_alone(spark: SparkSession) -> None:
    from snapshots.spark.diff import small

    master = pa.table({"c1": [1, 2]})
    present = pa.table({"c1": [2, 3]})
    found = small(spark, master, present, ["c1"], ["c1"]).to_pylist()
    assert sorted((row["op"], row["c1"]) for row in found) == [("D", 3), ("I", 1)]


def test_tells_which_tables_have_the_same_image(spark: SparkSession) -> None:
    from snapshots.spark.diff import small_apart

    def row(key: int, text: str | None, blob: bytes | None = None) -> Row:
        return (key, "k", text, None, blob)

    same = [row(0, "same"), row(9, None)]
    tables = [
        rows(*same, row(1, "a"), row(2, "a"), row(3, None), row(5, "x"), row(5, "x")),
        rows(*same, row(1, "a"), row(2, "b", b"\xff"), row(3, ""), row(5, "x")),
        rows(*same, row(2, "c"), row(3, None), row(4, "d"), row(5, "x")),
    ]
    found = small_apart(spark, tables, KEY, COLUMNS)
    assert found.column_names == ["images", "differs", "k1", "k2"]
    assert sorted(tuple(one.values()) for one in found.to_pylist()) == [
        ("0", "", "5", "k"),
        ("0,1", "", "1", "k"),
        ("0,2|1", "c3", "3", "k"),
        ("0|1|2", "c3,c5", "2", "k"),
        ("2", "", "4", "k"),
    ]


@pytest.mark.parametrize("name", ["name", "c0", "c1; DROP", "c1.c2", "C1", "c1\n"])
def test_refuses_columns_that_are_not_positional(name: str) -> None:
    from snapshots.spark.diff import diff

    with pytest.raises(ValueError, match="by position"):
        diff(None, None, ["c1"], ["c1", name])  # type: ignore[arg-type]


def test_one_session_a_process(spark: SparkSession) -> None:
    from snapshots.spark.errors import SparkAlreadyRunning
    from snapshots.spark.session import session

    assert session() is spark
    with pytest.raises(SparkAlreadyRunning):
        session("local[1]")


def test_survives_that_someone_stops_spark_or_kills_its_jvm(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = """
import os, signal
from pyspark import SparkContext
from snapshots.spark.session import session, stop
session("local[1]").stop()
assert session("local[1]").range(3).count() == 3
jvm = SparkContext._gateway.proc
os.kill(jvm.pid, signal.SIGKILL)
jvm.wait()
assert session("local[1]").range(4).count() == 4
if os.fork() == 0:
    try:
        session("local[1]")
    except Exception as error:
        os._exit(0 if error.code == "SNP-284" else 1)
    os._exit(2)
assert os.wait()[1] == 0
stop()
stop()
"""
    _run_apart(script, tmp_path)
    assert list(tmp_path.glob("snaptide-spark-*")) == []


def test_starts_again_after_its_jvm_is_killed_while_it_starts(tmp_path: Path) -> None:
    script = """
import os, signal, threading, time
from pyspark import SparkContext
from snapshots.spark.errors import SparkNotStarted
from snapshots.spark.session import session, stop
def kill():
    while SparkContext._gateway is None:
        time.sleep(0.001)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
killing = threading.Thread(target=kill)
killing.start()
try:
    session("local[1]")
    raise AssertionError("it was there before it was killed")
except SparkNotStarted:
    killing.join()
assert session("local[1]").range(4).count() == 4
stop()
"""
    _run_apart(script, tmp_path)


def _run_apart(script: str, folder: Path) -> None:
    """Run a program in a process of its own: others of this run use our session."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr


def _failing_ways() -> dict[str, Callable[[], object]]:
    """Each comparison, of values that Spark does not know or a table that is away."""
    shape = pa.schema([("c1", pa.int32()), ("c2", pa.uint64())])
    table = pa.table([[1], [1]], schema=shape)
    pair = Pair(master=table, present=table, key=["c1"], columns=shape.names)
    some = SCHEMA.field(0), SCHEMA.field(1)
    away = difference.Side("postgresql://127.0.0.1:1/none", ["SELECT 1, 'a'"], "none")
    many = (pa.schema(some), ["c1"], 10)
    target = difference.Target("public", "stage")
    return {
        "small": lambda: difference.small([pair]),
        "rows": lambda: difference.rows([pair]),
        "many_rows": lambda: list(difference.many_rows(away, away, *many)),
        "apart": lambda: difference.apart([table, table], ["c1"], shape.names),
        "many_apart": lambda: list(difference.many_apart([away, away], *many)),
        "staged": lambda: difference.staged(away, away, *many[:2], target, twice=False),
    }


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("way", _failing_ways())
def test_says_that_spark_has_failed(way: str) -> None:
    with pytest.raises(SparkError):
        _failing_ways()[way]()
