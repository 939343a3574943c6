"""Computes the changes that would make the present rows equal to the master's.

Columns are positional, `c1` to `cn`: users' names for them (dots, backticks,
quotes) never reach Spark. Values that Arrow cannot carry exactly come as text
(`sites.transfer.arrow.carrier`), so Spark compares only texts, integers, booleans and
bytes, for which equal means identical.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType

#: The changes that a row of a difference can ask for: insert, update, delete.
INSERT, UPDATE, DELETE = "I", "U", "D"

#: What `rows` says of a row: the present side lacks it, or the master does, or both
#: have it and it differs.
MISSING, EXTRA, DIFFERS = "missing", "extra", "differs"

_NAME = re.compile(r"c[1-9][0-9]*")


def diff(
    master: DataFrame, present: DataFrame, key: Sequence[str], columns: Sequence[str]
) -> DataFrame:
    """Compare the master's rows with the present ones.

    Parameters:
        master, present: both with the columns `columns`, of the same types.
        key: those of them that identify a row; unique in either frame.
        columns: all columns, named `c1` to `cn`.

    Returns:
        Column `op` and all columns: `I` with the row to insert, `U` with the row
        as it must become, `D` with the key of the row to delete and no other
        value. Rows that are equal on both sides, NULL for NULL, are not in it.

    Raises:
        ValueError: a column is not named by its position, or there is no key.
    """
    _check(key, columns)
    both = master.selectExpr("true AS theirs", _row(columns)).unionAll(
        present.selectExpr("false AS theirs", _row(columns))
    )
    # So each row is sent once; Spark would sort the rows before that and again after.
    return _changes(both.repartition(*_values(key)), key, columns)


def _changes(both: DataFrame, key: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The difference between the two sides of one frame.

    Spark plans and runs this with less work than a join of two frames; with few rows
    that is most of it. For the same reason a row is one value.

    Parameters:
        both: `theirs`, whether it is the master's row, and `row`, all its columns.
    """
    sides = both.groupBy(*_values(key)).agg(
        f.expr("first(row) FILTER (WHERE theirs) AS m"),
        f.expr("first(row) FILTER (WHERE NOT theirs) AS p"),
    )
    return sides.where("NOT (m <=> p)").selectExpr(
        f"CASE WHEN p IS NULL THEN '{INSERT}' WHEN m IS NULL THEN '{DELETE}' "
        f"ELSE '{UPDATE}' END AS op",
        *(c if c in key else f"m.{c} AS {c}" for c in columns),
    )


def _row(columns: Sequence[str]) -> str:
    return f"struct({', '.join(columns)}) AS row"


def _values(columns: Sequence[str]) -> list[Column]:
    return [f.col(f"row.{c}").alias(c) for c in columns]


def rows(
    master: DataFrame,
    present: DataFrame,
    key: Sequence[str],
    columns: Sequence[str],
    *,
    unique: bool = False,
) -> DataFrame:
    """Find which rows differ, without their values.

    Rows with the same key at one side, which no unique index would allow, are paired
    in any order: what is left over at either side differs.

    Parameters:
        as of `diff`, but the key need not be unique.
        unique: it is: then nothing has to be numbered, in half the time.

    Returns:
        Column `kind` (`MISSING`, `EXTRA` or `DIFFERS`), `differs` (for the last, the
        names of the columns that do, with commas), and the key's columns as texts, `k1`
        to `kn`.

    Raises:
        ValueError: as `diff` does.
    """
    _check(key, columns)
    rest = [column for column in columns if column not in key]
    number = "1" if unique else f"row_number() OVER ({_of_one_key(key)})"
    left, right = (
        frame.selectExpr(
            f"{number} AS {side}",
            *(f"{c} AS {side}{c}" for c in columns),
        )
        for side, frame in (("m", master), ("p", present))
    )
    joined = left.join(right, f.expr(f"{_same(key)} AND m = p"), "full_outer")
    changed = f"m IS NULL OR p IS NULL OR NOT ({_same(rest)})"
    texts = [
        f.coalesce(_text(master, c, f"m{c}"), _text(master, c, f"p{c}")).alias(f"k{n}")
        for n, c in enumerate(key, 1)
    ]
    named = (f"CASE WHEN NOT (m{c} <=> p{c}) THEN '{c}' END" for c in rest)
    return joined.where(changed).select(
        f.expr(
            f"CASE WHEN p IS NULL THEN '{MISSING}' WHEN m IS NULL THEN '{EXTRA}' "
            f"ELSE '{DIFFERS}' END AS kind"
        ),
        f.expr(
            "CASE WHEN m IS NOT NULL AND p IS NOT NULL "
            f"THEN concat_ws(',', {', '.join(named) or 'NULL'}) END AS differs"
        ),
        *texts,
    )


def apart(
    found: DataFrame, of: int, key: Sequence[str], columns: Sequence[str]
) -> DataFrame:
    """Find the rows that are not the same in several tables.

    Rows with the same key in one table, which no unique index would allow, are paired
    in any order, as by `rows`.

    Parameters:
        found: the rows of all tables: column `m`, the number of the table from 0, and
            the columns `columns`.
        of: how many tables there are.
        key: those of the columns that identify a row.
        columns: all columns, named `c1` to `cn`.

    Returns:
        Column `images`, with the numbers of the tables that have the same image, as in
        `0,2|1`; `differs`, the names of the columns that are not the same in all of
        these, with commas; and the key's columns as texts, `k1` to `kn`.

    Raises:
        ValueError: as `diff` does.
    """
    _check(key, columns)
    rest = [column for column in columns if column not in key]
    row = f"row_number() OVER (PARTITION BY m, {', '.join(key)} ORDER BY m) AS row"
    alike = (
        found.selectExpr("m", *columns, row)
        .groupBy(*columns, "row")
        .agg(f.sort_array(f.collect_list("m")).alias("tables"))
    )
    named = (f"CASE WHEN NOT ({_all_same(c)}) THEN '{c}' END" for c in rest)
    listed = "collect_list(concat_ws(',', transform(tables, t -> string(t))))"
    return (
        alike.groupBy(*key, "row")
        .agg(
            f.expr(f"sum(size(tables)) = {of} AND count(1) = 1").alias("same"),
            f.expr(f"concat_ws('|', sort_array({listed}))").alias("images"),
            f.expr(f"concat_ws(',', {', '.join(named) or 'NULL'})").alias("differs"),
        )
        .where("NOT same")
        .select(
            "images",
            "differs",
            *(_text(found, c, c).alias(f"k{n}") for n, c in enumerate(key, 1)),
        )
    )


def _all_same(column: str) -> str:
    """Whether a column has one value in all rows of a group, or NULL in all of them."""
    return f"count({column}) IN (0, count(1)) AND min({column}) <=> max({column})"


def numbered(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames, each with the number of its frame as `m`."""
    each = [
        frame.selectExpr(f"{n} AS m", *frame.columns) for n, frame in enumerate(frames)
    ]
    return reduce(DataFrame.unionAll, each)


def small_apart(
    spark: SparkSession,
    tables: Sequence[pa.Table],
    key: Sequence[str],
    columns: Sequence[str],
) -> pa.Table:
    """Compare tables that this process holds, as `apart` does."""
    numbered = [
        table.append_column("m", pa.repeat(pa.scalar(n, pa.int32()), table.num_rows))
        for n, table in enumerate(tables)
    ]
    found = _frame(spark, pa.concat_tables(numbered))
    return apart(found, len(tables), key, columns).toArrow()


def _of_one_key(key: Sequence[str]) -> str:
    listed = ", ".join(key)
    return f"PARTITION BY {listed} ORDER BY {listed}"


def _text(frame: DataFrame, column: str, name: str) -> Column:
    """A value as the database prints it."""
    value = f.col(name)
    if isinstance(frame.schema[column].dataType, BinaryType):
        return f.concat(f.lit("\\x"), f.lower(f.hex(value)))
    return value.cast("string")


def small_rows(
    spark: SparkSession,
    master: pa.Table,
    present: pa.Table,
    key: Sequence[str],
    columns: Sequence[str],
) -> pa.Table:
    """Compare two tables that this process holds, as `rows` does."""
    unique = all(
        table.select(key).group_by(list(key)).aggregate([]).num_rows == table.num_rows
        for table in (master, present)
    )
    left, right = (_frame(spark, table) for table in (master, present))
    return rows(left, right, key, columns, unique=unique).toArrow()


def in_slices(found: DataFrame, key: Sequence[str], most: int) -> Iterator[pa.Table]:
    """What `rows` found, in slices of about so many rows, each with whole keys."""
    # Otherwise each slice would read and compare all rows again.
    kept = found.persist(StorageLevel.DISK_ONLY)
    try:
        slices = kept.count() // most + 1
        names = [f.col(f"k{n}") for n, _ in enumerate(key, 1)]
        number = f.pmod(f.hash(*names), f.lit(slices))
        for wanted in range(slices):
            yield kept.where(number == wanted).toArrow()
    finally:
        kept.unpersist()


def small(
    spark: SparkSession,
    master: pa.Table,
    present: pa.Table,
    key: Sequence[str],
    columns: Sequence[str],
) -> pa.Table:
    """Compare two tables that this process holds, as `diff` does.

    All in one partition, so Spark sorts and compares them without a shuffle and without
    a Python worker. Two empty tables start no job.
    """
    if not master.num_rows and not present.num_rows:
        return empty(master.schema, columns)
    both = pa.concat_tables(
        pa.table(
            {
                "theirs": pa.repeat(pa.scalar(theirs), table.num_rows),
                "row": table.select(columns).to_struct_array(),
            }
        )
        for theirs, table in ((True, master), (False, present))
    )
    return _changes(_frame(spark, both), key, columns).toArrow()


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table as a frame of one partition.

    Its batches are combined: Spark stops reading at an empty one that follows another.
    """
    return spark.createDataFrame(table.combine_chunks()).coalesce(1)


def empty(schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """A difference without rows."""
    fields = [pa.field(name, schema.field(name).type) for name in columns]
    return pa.schema([pa.field("op", pa.string()), *fields]).empty_table()


def _same(columns: Iterable[str]) -> str:
    return " AND ".join(f"m{c} <=> p{c}" for c in columns) or "true"


def _check(key: Sequence[str], columns: Sequence[str]) -> None:
    wrong = [name for name in (*columns, *key) if not _NAME.fullmatch(name)]
    if wrong or not key or not set(key) <= set(columns):
        raise ValueError(
            "The columns must be given by position, with a key among them: "
            f"{wrong or key}"
        )
