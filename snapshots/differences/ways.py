"""Chooses by which way a refresh compares a snapshot.

There are three: the keys of the snapshot log; all rows, of which each side sums up
those of a large table first; and all rows as they are. By default a refresh takes the
first of these that it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import func, select

from sites.conditions import ranges
from snapshots.differences import comparison, images
from snapshots.differences.comparison import SUMS
from snapshots.differences.estimate import Costs, cheapest, estimate
from snapshots.differences.window import COMPLETE, FAST, LOAD, Member, Window
from snapshots.keys import Side, Sides


def choose(
    sides: Sides,
    seen: Window,
    asked: Mapping[str, str],
    past: Mapping[str, Mapping[str, Costs]],
) -> Window:
    """Have each snapshot compared by the way that costs least.

    Parameters:
        asked: the method of each snapshot for which one was asked; it stays.
        past: by snapshot and way, what refreshes have cost.
    """
    members = (
        one
        if one.method == LOAD or asked.get(one.snapshot.key, "?") != "?"
        else _chosen(one, _estimates(sides, one, past.get(one.snapshot.key, {})))
        for one in seen.members
    )
    return replace(seen, members=tuple(members))


def _chosen(member: Member, estimates: Mapping[str, float | None]) -> Member:
    way, member = cheapest(estimates), replace(member, estimates=estimates)
    if way == FAST:
        return member
    summed_up = way != COMPLETE or SUMS not in estimates
    return replace(member, method=COMPLETE, moved=(), own={}, summed_up=summed_up)


def _estimates(
    sides: Sides, member: Member, past: Mapping[str, Costs]
) -> dict[str, float | None]:
    """The seconds of each way that can be taken, in the order of preference."""
    found: dict[str, float | None] = {}
    if member.method == FAST:
        changed = _changed(sides.master, member) if FAST in past else 0
        found[FAST] = estimate(past.get(FAST, ()), changed)
    if SUMS not in past and COMPLETE not in past:
        return found or {SUMS: None}
    rows = _rows(sides.master, member)
    if rows is None:
        return found or {SUMS: None}
    if rows > comparison.most_rows(sides.master, member.snapshot.master):
        found[SUMS] = estimate(past.get(SUMS, ()), rows)
    found[COMPLETE] = estimate(past.get(COMPLETE, ()), rows)
    return found


def _changed(master: Side, member: Member) -> int:
    """How many keys of rows a fast refresh would look at."""
    assert member.since is not None
    keys = images.changed_keys(member, member.since).subquery()
    return master.at.scalar(select(func.count()).select_from(keys)) or 0


def _rows(master: Side, member: Member) -> int | None:
    return ranges.rows_about(master.at, member.snapshot.master)
