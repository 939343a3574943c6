"""Leaving out old values that a master does not want (Oracle: SEND_OLD_VALUES).

Values that are not sent are not compared. An update still has to say which columns it
changed: an old value stays if the column was left alone, since it equals the new one,
and if the column was set to NULL.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, and_, case, or_, select

from masters.rules import Comparison
from sites.writing.staged import UPDATES, Staged


def without(
    changes: Select[Any], staged: Staged, comparison: Comparison
) -> Select[Any]:
    """The net changes, with NULL for old values that are not to be sent."""
    if comparison.all_sent:
        return changes
    source = changes.subquery()
    hidden = {
        f"o{n}": _old(staged, source, n, name, comparison)
        for n, name in enumerate(staged.columns, 1)
        if name not in staged.identity
    }
    return select(*(hidden.get(c.name, c).label(c.name) for c in source.c))


def _old(
    staged: Staged, source: FromClause, n: int, name: str, comparison: Comparison
) -> ColumnElement[Any]:
    old, new = source.c[f"o{n}"], source.c[f"n{n}"]
    told = or_(new.is_(None), staged.table.column(name).unchanged(old, new))
    kinds = []
    if name in comparison.not_sent_at_update:
        kinds.append(and_(source.c.kind.in_(UPDATES), ~told))
    if name in comparison.not_sent_at_delete:
        kinds.append(source.c.kind == "D")
    return case((or_(*kinds), None), else_=old) if kinds else old
