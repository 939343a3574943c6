"""Positions as conditions; what they select is tested where there is a database."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from sites.capture import position
from sites.transfer.types import Xid8

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


def test_after_a_position_of_this_cluster_there_are_only_its_own_ids() -> None:
    text = _sql(position.after(XID, "10:20:12"))
    assert f"xid < CAST('{position.STRETCH}' AS xid8) AND " in text
    assert "NOT pg_visible_in_snapshot(xid, CAST('10:20:12' AS pg_snapshot))" in text


@pytest.mark.parametrize("high", [position.STRETCH, position.STRETCH + 9])
def test_after_a_position_that_was_moved_come_all_ids_of_this_cluster(
    high: int,
) -> None:
    """The high end says of which cluster a position is."""
    text = _sql(position.after(XID, f"10:{high}:"))
    assert f"xid < CAST('{position.STRETCH}' AS xid8) OR NOT pg_visible" in text


@pytest.mark.parametrize(
    ("before", "by", "then"),
    [
        ("10:20:", 100, "110:120:"),
        ("10:20:12", 100, "110:120:112"),
        ("10:20:12,15", 100, "110:120:112,115"),
        (position.START, 2**48, f"{2**48 + 1}:{2**48 + 1}:"),
    ],
)
def test_position_is_moved_with_all_ids_in_it(before: str, by: int, then: str) -> None:
    assert position.moved(before, by) == then


@pytest.mark.parametrize(
    ("now", "earlier", "expected"),
    [
        ("10:20:", "10:20:", True),
        ("10:21:", "10:20:", True),
        ("10:19:", "10:20:", False),
        # Open at both: nobody waits for it.
        ("12:30:12", "12:20:12,15", True),
        # Open now, but committed then.
        ("12:30:12", "15:20:15", False),
        # Begun since.
        ("25:30:25", "20:20:", True),
    ],
)
def test_a_position_has_seen_all_that_another_one_has(
    now: str, earlier: str, expected: bool
) -> None:
    assert position.has_seen(now, earlier) is expected
