"""Batches of many transactions say which they are, instead of a row for each of these.

The table of rows gets another name, and its own becomes that of a view of both.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from sites.sessions.revisions import run_script
from sites.transfer.types import PgSnapshot, Xid8

revision = "0083"
down_revision = "0082"

_COLUMNS = (
    ("first_xid", Xid8()),
    ("shown", PgSnapshot()),
    ("first_order", sa.BigInteger()),
    ("last_order", sa.BigInteger()),
    ("calls_each", sa.BigInteger()),
)

_CONSTRAINTS = ("pkey", "destination_batch_order_no_key")

_ROWS = """
INSERT INTO snaptide.delivery_row (destination, xid, order_no, calls, batch)
SELECT d.destination, d.xid, d.order_no, d.calls, d.batch
FROM snaptide.delivery d
ON CONFLICT (destination, xid) DO NOTHING
"""

#: The views that read a relation: the dictionary views, and the log of each snapshot.
_READERS = """
SELECT DISTINCT format('%I.%I', n.nspname, c.relname) AS name,
       ' WITH (' || array_to_string(c.reloptions, ', ') || ')' AS options,
       pg_get_viewdef(c.oid) AS query
FROM pg_depend d
JOIN pg_rewrite r ON r.oid = d.objid
JOIN pg_class c ON c.oid = r.ev_class
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND d.refobjid = 'snaptide.delivery'::regclass AND c.oid <> d.refobjid
"""


def upgrade() -> None:
    for name, type_ in _COLUMNS:
        op.add_column("batch", sa.Column(name, type_), schema="snaptide")
    op.create_index(
        "batch_without_rows_idx",
        "batch",
        ["destination", "number"],
        schema="snaptide",
        postgresql_where=sa.text("first_xid IS NOT NULL"),
    )
    readers = _readers()
    _rename("delivery", "delivery_row")
    run_script(op.get_bind(), "delivery_view")
    _make_again(readers)


def downgrade() -> None:
    op.execute(_ROWS)
    readers = _readers()
    op.execute("ALTER VIEW snaptide.delivery RENAME TO delivery_view")
    _rename("delivery_row", "delivery")
    _make_again(readers)
    op.execute("DROP VIEW snaptide.delivery_view")
    op.drop_index("batch_without_rows_idx", "batch", schema="snaptide")
    for name, _ in _COLUMNS:
        op.drop_column("batch", name, schema="snaptide")


def _rename(before: str, after: str) -> None:
    op.rename_table(before, after, schema="snaptide")
    for name in _CONSTRAINTS:
        op.execute(
            f"ALTER TABLE snaptide.{after}"
            f" RENAME CONSTRAINT {before}_{name} TO {after}_{name}"
        )


def _readers() -> list[sa.Row[Any]]:
    # It has percent signs, which are no parameters.
    found = op.get_bind().exec_driver_sql(
        _READERS, execution_options={"no_parameters": True}
    )
    return list(found.all())


def _make_again(readers: list[sa.Row[Any]]) -> None:
    """Have views read what is called delivery now, and not what was called so."""
    for one in readers:
        op.get_bind().exec_driver_sql(
            f"CREATE OR REPLACE VIEW {one.name}{one.options or ''} AS {one.query}",
            execution_options={"no_parameters": True},
        )
