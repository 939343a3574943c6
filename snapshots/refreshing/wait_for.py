"""Waits until a site shows what was pushed to its master."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection, Text, func, select
from tenacity import stop_after_delay, wait_fixed

from deferred.pushing.report import Token
from sites import Site, retry
from sites.capture import position
from sites.sessions import identity
from snapshots import catalog
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.errors import NotShownInTime

#: Seconds between two looks at the site.
PAUSE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a site shows of a push."""

    site: str
    master: str
    #: the refresh groups that show it
    groups: tuple[str, ...]
    #: rows that their last refreshes left alone, as the site's users hold them or have
    #: changed them: of these, a later refresh shows what was pushed
    held_back: int
    #: how long it took
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A refresh group, and the moments of its master that it and its snapshots show.

    None is a moment of a group or a snapshot that has no rows yet.
    """

    name: str
    moments: Sequence[str | None]
    incarnation: uuid.UUID | None
    refreshed_at: datetime | None
    last_error: str | None
    held_back: int

    def shows(self, token: Token) -> bool:
        """Whether all snapshots show what was pushed."""
        return self.incarnation == token.incarnation and all(
            at is not None and position.has_seen(at, token.position)
            for at in self.moments
        )

    def lack(self, token: Token) -> str:
        """What it shows instead."""
        if self.refreshed_at is None:
            said = "was never refreshed"
        elif self.incarnation != token.incarnation:
            said = f"shows another state of {token.master} than the one of the token"
        elif None in self.moments:
            said = "has a snapshot that no refresh has filled yet"
        else:
            said = f"was last refreshed at {self.refreshed_at:%Y-%m-%d %H:%M:%S %Z}"
        why = f" ({self.last_error})" if self.last_error else ""
        return f"group {self.name} {said}{why}"


def wait_for(
    site: Site,
    token: str,
    timeout: timedelta = timedelta(seconds=30),
    *,
    group: str | None = None,
) -> Shown:
    """Wait until a site shows what a push has brought to its master.

    Asks only the site. It refreshes nothing: that is left to schedules, workers, and
    whatever else refreshes there. What the push parked in the error queue is not waited
    for.

    Parameters:
        site: one that has snapshots of the master; also the one that pushed.
        token: that of the push (`PushReport.token`).
        timeout: how long to wait; none at all is one look.
        group: the refresh group; by default all of the site that have this master.

    Raises:
        NotShownInTime: it does not show it yet; the message says which groups lack it.
        UnknownSnapshot: no refresh group here, or not this one, has that master.
        NotAToken: the text is no token.
        SiteNotInitialised, SiteUnreachable.
    """
    wanted, began = Token.parse(token), time.monotonic()
    found: list[_Group] = []

    def shown() -> bool:
        with identity.initialised(site) as connection:
            found[:] = _groups(connection, wanted.master, group)
        return all(one.shows(wanted) for one in found)

    limit = timeout.total_seconds()
    if not retry.until(shown, wait=wait_fixed(PAUSE), stop=stop_after_delay(limit)):
        lacking = [one for one in found if not one.shows(wanted)]
        raise NotShownInTime(
            f"After {limit:g} s, {site.name} does not show what was pushed to "
            f"{wanted.master}: {'; '.join(one.lack(wanted) for one in lacking)}.",
            site=site.name,
            master=wanted.master,
            groups=[one.name for one in lacking],
        )
    return Shown(
        site=site.name,
        master=wanted.master,
        groups=tuple(one.name for one in found),
        held_back=sum(one.held_back for one in found),
        seconds=time.monotonic() - began,
    )


def _groups(connection: Connection, master: str, name: str | None) -> list[_Group]:
    """The groups of a master, by name, or the one of that name.

    Raises:
        UnknownSnapshot: there is none.
    """
    at, one = catalog.refresh_group.c, catalog.snapshot.c
    # One without rows shows nothing, whatever the group does.
    own = select(func.array_agg(sa.cast(one.position, Text))).where(
        one.refresh_group == at.name,
        sa.or_(one.position.is_not(None), sa.not_(one.loaded)),
    )
    shown = func.coalesce(at.unchanged_at, at.position)
    rows = connection.execute(
        select(
            *(at.name, at.master, at.incarnation, at.refreshed_at, at.last_error),
            *(at.held_back, sa.cast(shown, Text).label("shown")),
            func.coalesce(own.scalar_subquery(), sa.text("'{}'")).label("behind"),
        ).order_by(at.name)
    ).all()
    found = [row for row in rows if row.master == master and name in (None, row.name)]
    if not found:
        raise UnknownSnapshot(_unknown(master, name, {r.name: r.master for r in rows}))
    return [
        _Group(
            name=row.name,
            moments=[row.shown, *row.behind],
            incarnation=row.incarnation,
            refreshed_at=row.refreshed_at,
            last_error=row.last_error,
            held_back=sum(row.held_back.values()),
        )
        for row in found
    ]


def _unknown(master: str, name: str | None, masters: dict[str, str]) -> str:
    there = ", ".join(f"{one} of {of}" for one, of in masters.items()) or "none"
    what = f"no refresh group {name}" if name else "no refresh group"
    return f"This site has {what} of master {master}; it has: {there}."
