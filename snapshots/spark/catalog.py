"""Tables that let a Spark task run twice and count once."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, Table, Text, Uuid

from sites.catalog import metadata

#: Task attempts whose rows in a stage table count.
stage_attempt = Table(
    "stage_attempt",
    metadata,
    Column("load_id", Uuid, primary_key=True),
    Column("attempt", Text, primary_key=True),
    Column("rows", BigInteger, nullable=False),
)

#: Ranges of a first load that are in the table, written with their rows.
load_range = Table(
    "load_range",
    metadata,
    Column("load_id", Uuid, primary_key=True),
    Column("range_no", Integer, primary_key=True),
    Column("rows", BigInteger, nullable=False),
)
