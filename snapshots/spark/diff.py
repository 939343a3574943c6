"""Computes the changes that would make the present rows equal to the master's.

Columns are positional, `c1` to `cn`: users' names for them (dots, backticks,
quotes) never reach Spark. Values that Arrow cannot carry exactly come as text
(`sites.arrow.carrier`), so Spark compares only texts, integers, booleans and
bytes, for which equal means identical.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

#: The changes that a row of a difference can ask for: insert, update, delete.
INSERT, UPDATE, DELETE = "I", "U", "D"

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
    rest = [column for column in columns if column not in key]
    left = master.selectExpr("true AS m", *(f"{c} AS m{c}" for c in columns))
    right = present.selectExpr("true AS p", *(f"{c} AS p{c}" for c in columns))
    joined = left.join(right, f.expr(_same(key)), "full_outer")
    changed = f"m IS NULL OR p IS NULL OR NOT ({_same(rest)})"
    return joined.where(changed).selectExpr(
        f"CASE WHEN p IS NULL THEN '{INSERT}' WHEN m IS NULL THEN '{DELETE}' "
        f"ELSE '{UPDATE}' END AS op",
        *(
            f"coalesce(m{c}, p{c}) AS {c}" if c in key else f"m{c} AS {c}"
            for c in columns
        ),
    )


def small(
    spark: SparkSession,
    master: pa.Table,
    present: pa.Table,
    key: Sequence[str],
    columns: Sequence[str],
) -> pa.Table:
    """Compare two tables that this process holds, as `diff` does.

    One partition each, so Spark sorts and merges them without a shuffle and
    without a Python worker. Two empty tables start no job.
    """
    if not master.num_rows and not present.num_rows:
        return empty(master.schema, columns)
    left, right = (_frame(spark, table) for table in (master, present))
    return diff(left, right, key, columns).toArrow()


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
