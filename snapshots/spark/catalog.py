"""The table that lets a Spark task run twice and count once."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, Table, Text, Uuid

from sites.catalog import metadata

#: Ranges of a first load that are in the table, written with their rows.
load_range = Table(
    "load_range",
    metadata,
    Column("load_id", Uuid, primary_key=True),
    Column("range_no", Integer, primary_key=True),
    Column("rows", BigInteger, nullable=False),
    # What the load copies, in range 0: the exported moment of the source, or an image.
    Column("moment", Text),
)
