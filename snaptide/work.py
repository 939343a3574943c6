"""What workers and beat do at a site, as far as its database can tell.

Celery's own events are kept in the memory of whoever listens, and are lost with it. The
database knows when beat looked last, which runs were asked for and have not ended,
which are reported as running, and which sessions of ours wait for somebody's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from deferred import runs
from deferred.catalog import schedule
from sites import Site
from sites.catalog import activity
from sites.sessions.activity import running
from snaptide.asking import asking
from snaptide.reading import LISTENERS

#: So many runs of each kind are read.
MOST = 200

_FROM = sa.text(
    "SELECT pid, COALESCE(host(client_addr), 'its own machine') FROM pg_stat_activity"
    " WHERE pid = ANY(:pids)"
)
_BLOCKED = sa.text(
    "SELECT a.pid, a.query_start AS since, b.pid AS holder, b.usename AS user,"
    " b.application_name AS program, b.xact_start AS begun"
    " FROM pg_stat_activity a"
    " CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS h(pid)"
    " LEFT JOIN pg_stat_activity b ON b.pid = h.pid"
    " WHERE a.datname = current_database() AND a.application_name = 'snaptide'"
    " AND a.wait_event_type = 'Lock' ORDER BY a.query_start, a.pid, b.pid LIMIT :most"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that a worker reports."""

    kind: str
    subject: str
    done: int
    total: int | None
    unit: str
    started_at: datetime
    #: the machine of the worker; None if we may not see it
    machine: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run that beat has asked for, and that no worker has ended."""

    kind: str
    subject: str
    asked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A session of ours that waits for a lock, and one that holds it."""

    pid: int
    since: datetime | None
    #: None for a prepared transaction, which no session holds
    holder: int | None
    user: str | None
    program: str | None
    #: when the holder's transaction began
    begun: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work at a site at one moment."""

    now: datetime
    #: when beat last looked at the site
    looked_at: datetime | None
    #: workers that listen to its commits
    listeners: int
    runs: Sequence[Run]
    asked: Sequence[Asked]
    #: how many there are of these
    all_asked: int
    blocked: Sequence[Blocked]

    @property
    def beat_is_away(self) -> bool:
        """Whether nothing asks for the runs."""
        return runs.is_away(self.looked_at, self.now)


def work_at(site: Site) -> Work:
    """What is done at a site now.

    Raises:
        SiteUnreachable, NotPermitted, DatabaseError: it cannot say.
    """
    waits = schedule.c.asked_at.is_not(None)
    with asking(site) as connection:
        return Work(
            now=connection.execute(select(func.now())).scalar_one(),
            looked_at=runs.last_look(connection),
            listeners=connection.execute(
                select(sa.literal_column(LISTENERS))
            ).scalar_one(),
            runs=_runs(connection),
            asked=[
                Asked(**row._mapping)
                for row in connection.execute(
                    select(*(schedule.c[n] for n in Asked.__slots__))
                    .where(waits)
                    .order_by(schedule.c.asked_at, schedule.c.kind, schedule.c.subject)
                    .limit(MOST)
                )
            ],
            all_asked=connection.scalar(select(func.count()).where(waits)) or 0,
            blocked=[
                Blocked(**row._mapping)
                for row in connection.execute(_BLOCKED, {"most": MOST})
            ],
        )


def _runs(connection: Connection) -> list[Run]:
    told = ("kind", "subject", "done", "total", "unit", "started_at", "pid")
    wanted: sa.Select[Any] = select(*(activity.c[name] for name in told))
    found = connection.execute(
        wanted.where(running()).order_by(activity.c.started_at).limit(MOST)
    ).all()
    pids = {"pids": [row.pid for row in found]}
    machines = {row[0]: row[1] for row in connection.execute(_FROM, pids)}
    return [
        Run(
            **{name: getattr(row, name) for name in told[:-1]},
            machine=machines.get(row.pid),
        )
        for row in found
    ]
