"""Positions as conditions; what they select is tested where there is a database."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from sites import position
from sites.types import Xid8

XID = sa.column("xid", Xid8())


def _sql(clause: sa.ColumnElement[Any]) -> str:
    return str(
        clause.compile(
            dialect=postgresql.dialect(),
            compile_kwargs={"literal_binds": True},
        )
    )


def test_since_takes_new_transactions_and_those_that_were_open() -> None:
    """Never a scan from xmin: one forgotten writer would have all of the log read."""
    text = _sql(position.since(XID, "10:20:12"))
    assert "xid >= pg_snapshot_xmax(CAST('10:20:12' AS pg_snapshot))" in text
    assert "pg_snapshot_xip(CAST('10:20:12' AS pg_snapshot))" in text
    assert " OR xid = ANY (array(" in text.replace("ARRAY", "array")
    assert "xmin" not in text


def test_position_is_a_value_never_sql() -> None:
    hostile = "1:1:'; DROP TABLE x"
    assert "'1:1:''; DROP TABLE x'" in _sql(position.since(XID, hostile))


def test_xid_is_passed_as_text() -> None:
    assert _sql(position.xid8(2**63)) == "CAST('9223372036854775808' AS xid8)"
