"""The last saved check of each snapshot, of those that say something of all its rows.

A check that found nothing, but looked at some rows or columns alone, says nothing of
the others. Nor does one that found the snapshot not loaded yet.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, cast, func, select
from sqlalchemy.dialects.postgresql import distinct_on

from sites.transfer.types import NativeType
from snapshots.catalog import check_run, check_snapshot
from snapshots.check.report import Reason

_run, _of = check_run.c, check_snapshot.c

#: A check was about all rows and columns.
_WHOLE = sa.and_(_run.condition.is_(None), func.cardinality(_run.columns) == 0)
#: It found rows that differ without a reason.
_FOUND = func.jsonb_path_exists(
    _of.counts,
    cast(
        f'strict $[*] ? (@[1] == "{Reason.UNEXPLAINED.value}")', NativeType("jsonpath")
    ),
)

#: Its columns: snapshot, counts, id, began_at.
LAST = (
    select(_of.snapshot, _of.counts, _run.id, _run.began_at)
    .join_from(check_snapshot, check_run, _of.run_id == _run.id)
    .where(_of.moment_here.is_not(None), sa.or_(_WHOLE, _FOUND))
    .ext(distinct_on(_of.snapshot))
    .order_by(_of.snapshot, _of.run_id.desc())
)


def unexplained_rows() -> sa.ScalarSelect[int]:
    """How many rows these checks found that differ without a reason; NULL if none."""
    last = LAST.subquery("last")
    each = func.jsonb_array_elements(last.c.counts).table_valued("value")
    counted = each.c.value
    reason = counted.op("->>")(sa.literal_column("1"))
    rows = cast(counted.op("->>")(sa.literal_column("2")), BigInteger)
    return (
        select(func.sum(rows))
        .select_from(last.join(each, sa.true()))
        .where(reason == sa.literal(Reason.UNEXPLAINED.value, sa.Text))
        .scalar_subquery()
    )
