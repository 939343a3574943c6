"""Lists the last refreshes of a group, with their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from sites.sessions import identity
from sites.sessions.site import Site
from snapshots.catalog import refresh_run
from snapshots.definitions import refresh_group
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.definitions.refresh_notes import STEPS
from snapshots.differences.estimate import Costs
from snapshots.reports import WayTaken

#: So many refreshes of each way say what it costs.
CONSIDERED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRefresh:
    """A refresh that has ended, or several in a row that are alike.

    Those that found nothing new are, and those that failed with the same error.
    """

    #: refreshed, nothing new, or failed
    outcome: str
    #: when it ended; of several, the first and the last of them
    first_at: datetime
    ended_at: datetime
    #: how many they are, and the longest time between two of them
    refreshes: int
    longest: timedelta | None
    #: when the last one before it that did not fail ended; None if there was none
    previous_at: datetime | None
    #: until it ended; of several, those of the last
    seconds: float
    #: the same by step, in their order: push, ask, start, window, compare, load, merge
    steps: Mapping[str, float]
    #: by snapshot that was compared, the way and its cost
    ways: Mapping[str, WayTaken]
    #: load, fast and complete, those that its snapshots had; none if it failed
    methods: tuple[str, ...]
    inserted: int
    updated: int
    deleted: int
    #: rows that it left alone
    held_back: int
    #: why it failed, with the code, or what of it the site refused
    error: str | None


def list_refreshes(
    site: Site, group: str, *, limit: int | None = None
) -> list[PastRefresh]:
    """The last refreshes of a group, the latest first; a site keeps a hundred of each.

    In a row, those that found nothing new, or failed with the same error, are one.

    Parameters:
        limit: at most so many; None is all of them.

    Raises:
        UnknownSnapshot: there is no group of that name.
    """
    at = refresh_run.c
    wanted = select(*(at[name] for name in PastRefresh.__slots__))
    with site.session() as connection:
        identity.read(connection)
        if refresh_group.find(connection, group) is None:
            raise UnknownSnapshot(f"There is no refresh group {group}.", group=group)
        rows = connection.execute(
            wanted.where(at.refresh_group == group).order_by(at.id.desc()).limit(limit)
        )
        return [
            PastRefresh(
                **{
                    **row._mapping,
                    "methods": tuple(row.methods),
                    "ways": {name: WayTaken(**one) for name, one in row.ways.items()},
                    "steps": {n: row.steps[n] for n in STEPS if n in row.steps},
                }
            )
            for row in rows
        ]


def costs(connection: Connection, group: str) -> Mapping[str, Mapping[str, Costs]]:
    """What the last refreshes of a group have cost, by snapshot and way.

    With the refreshes that a site does not keep any more, what they have cost is
    forgotten: a way that was dear once is tried again.
    """
    at = refresh_run.c
    rows = connection.scalars(
        select(at.ways)
        .where(at.refresh_group == group, at.ways != {})
        .order_by(at.id.desc())
    )
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for ways in rows:
        for name, one in ways.items():
            if one["size"] is None:
                continue
            past = found.setdefault(name, {}).setdefault(one["way"], [])
            if len(past) < CONSIDERED:
                past.append((one["size"], one["seconds"]))
    return found
