"""Which refresh is due first: the one that is latest by its contract."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sqlalchemy import Connection, Double, cast, func, select

from deferred.schedules import Schedule
from snapshots.catalog import promise, refresh_group


def most_late_first(
    connection: Connection, due: Sequence[Schedule]
) -> list[tuple[Schedule, float]]:
    """Order work that is due at the same time, as workers are to begin it.

    How late a refresh is, is the age of what its group shows as a share of the time
    within which its contract has changes visible. Other work comes after it, in the
    order in which it is given.

    Parameters:
        due: as `deferred.schedules.claim` returns it.

    Returns:
        Each with the share; 0 without a contract.
    """
    groups = [one.subject for one in due if one.kind == "refresh"]
    shares = _shares(connection, groups) if groups else {}
    late = [
        (one, shares.get(one.subject, 0.0) if one.kind == "refresh" else 0.0)
        for one in due
    ]
    return sorted(late, key=lambda one: -one[1])


def _shares(connection: Connection, groups: Sequence[str]) -> dict[str, float]:
    """By group with a contract, how late it is; infinite if it shows nothing yet."""
    at = refresh_group.c
    age = func.extract("epoch", func.now() - at.refreshed_at)
    within = func.extract("epoch", promise.c.visible_within)
    rows = connection.execute(
        select(at.name, cast(age / within, Double).label("share"))
        .join(promise)
        .where(at.name.in_(groups), promise.c.visible_within.is_not(None))
    )
    return {row.name: math.inf if row.share is None else row.share for row in rows}
