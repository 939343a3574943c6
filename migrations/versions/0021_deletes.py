"""Adds times of deletes to logs and resolutions, for rules that ask for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from psycopg import sql

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column(
        "resolution_record",
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        schema="snaptide",
    )
    for log, keys in _logs():
        # Set the default later, so that rows logged before get no time.
        _run("ALTER TABLE {} ADD at timestamptz", _ours(log))
        _run("ALTER TABLE {} ALTER at SET DEFAULT now()", _ours(log))
        _run(
            "CREATE TABLE {} PARTITION OF {} FOR VALUES IN (8)",
            _part(log, "8"),
            _ours(log),
        )
        _run(
            "CREATE INDEX {} ON {} ({}) WHERE kind IN ('D', 'T')",
            sql.Identifier(_named(log, "d")),
            _ours(log),
            sql.SQL(", ").join(sql.Identifier(f"k{n + 1}") for n in range(keys)),
        )


def downgrade() -> None:
    op.drop_column("resolution_record", "deleted_at", schema="snaptide")
    for log, _ in _logs():
        _run("DROP INDEX {}", _part(log, "d"))
        _run("DROP TABLE {}", _part(log, "8"))
        _run("ALTER TABLE {} DROP at", _ours(log))


def _logs() -> list[tuple[str, int]]:
    """The snapshot logs of this master, with the number of columns of their keys."""
    found = op.get_bind().exec_driver_sql(
        "SELECT log_table, cardinality(identity_columns) FROM snaptide.snapshot_log"
    )
    return [(log, keys) for log, keys in found]


def _run(statement: str, *parts: sql.Composable) -> None:
    connection = op.get_bind().connection.driver_connection
    assert connection is not None
    connection.execute(sql.SQL(statement).format(*parts))


def _ours(name: str) -> sql.Identifier:
    return sql.Identifier("snaptide", name)


def _part(log: str, suffix: str) -> sql.Identifier:
    return _ours(_named(log, suffix))


def _named(log: str, suffix: str) -> str:
    return log.encode()[:60].decode(errors="ignore") + "~" + suffix
