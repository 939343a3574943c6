"""Tables of the schema `snaptide` that only the program uses."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, Identity, Table, Text, func

from sites.catalog import metadata

#: What people have done at this site in the console.
operator_action = Table(
    "operator_action",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column(
        "begun_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.clock_timestamp(),
        index=True,
    ),
    Column("operator", Text, nullable=False),
    Column("role", Text, nullable=False),
    # The command line that does the same.
    Column("command", Text, nullable=False),
    # NULL while it is done, and for ever if the console ended meanwhile.
    Column("outcome", Text),
    Column("ended_at", DateTime(timezone=True)),
)
