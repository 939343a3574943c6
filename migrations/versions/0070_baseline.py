"""The schema `snaptide`: the tables of each package that owns some, and functions.

Development versions had a chain of revisions from the first table on. This schema is
that of revision 0070 and has its number, so that a site of that one goes on from it.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0070"
down_revision = None

_SQL = Path(__file__).parent.parent / "sql"

#: In this order, because later files refer to tables of earlier ones.
_FILES = (
    *("sites", "masters", "deferred", "snapshots", "groups"),
    *("checks", "order", "procedure_calls", "comes_from", "numbers", "views"),
)


def upgrade() -> None:
    for name in _FILES:
        _run(name)


def downgrade() -> None:
    _run("drop")


def _run(name: str) -> None:
    op.get_bind().exec_driver_sql(
        (_SQL / f"{name}.sql").read_text("utf-8"),
        execution_options={"no_parameters": True},
    )
