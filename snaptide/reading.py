"""What a site says of itself, in one statement that each session plans once.

The console asks hundreds of sites at a time: what it takes for each of them, all of its
threads wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Double, Text, cast, func, literal_column, select

from deferred import runs
from deferred.catalog import beat, destination, schedule
from deferred.error_catalog import error_transaction
from deferred.queues import backlog
from deferred.queues.backlog import Backlog
from deferred.runs import GRACE, Overdue
from groups import Status
from groups.catalog import quiet_group, replication_group
from masters.analysis.records import resolved_by_method
from masters.catalog import (
    numbered_column,
    purged_resolutions,
    registered_snapshot,
    resolution_record,
)
from masters.contract_catalog import contract
from masters.numbers.left import Numbers, leased
from sites.catalog import activity
from sites.sessions import revisions
from sites.sessions.activity import running
from sites.sessions.prepared import Prepared, as_json
from snapshots.catalog import (
    promise,
    refresh_group,
    refresh_run,
    refresh_step,
    snapshot,
)
from snapshots.check.last import unexplained_rows
from snaptide import for_sites

#: How many workers listen to commits at this site.
LISTENERS = (
    "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'snaptide-listener')"
)

#: A row, with its columns as attributes.
Row = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a site has said; rows have the columns that the statement names."""

    revision: str | None
    now: datetime
    #: when beat last looked at the site
    looked_at: datetime | None
    #: how many workers listen to its commits
    listeners: int
    #: when the oldest change was made that a snapshot log keeps
    log_oldest: datetime | None
    #: how long the site took to say it
    seconds: float
    in_doubt: int
    log_bytes: int
    unexplained: int
    backlog: Sequence[Backlog]
    refresh_groups: Sequence[Row]
    left_behind: Sequence[Row]
    step_times: Sequence[Row]
    parked: Sequence[Row]
    readers: Sequence[Row]
    contracts: Sequence[Row]
    publications: Sequence[Row]
    grants: Sequence[Row]
    images: Sequence[Row]
    answers: Sequence[AnswerStatus]
    brought: Sequence[Row]
    resolved: Mapping[str, int]
    schedules: Sequence[Row]
    overdue: Sequence[Overdue]
    activities: Sequence[Row]
    numbers: Sequence[Numbers]
    #: groups of masters that are not as usual
    suspended: Sequence[Row]
    quiet: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerStatus:
    """How long what a group has changed waits for an answer that was promised."""

    group: str
    master: str
    #: within how many seconds an answer is promised
    within: float
    #: kept or late, and since when
    state: str
    since: datetime
    #: seconds since the oldest change was committed that is not answered, as the last
    #: look found it; 0 if all are, None before the first look
    age: float | None
    #: when a worker last looked; before the first time, since when it is promised
    looked_at: datetime


def read(connection: Connection) -> Reading:
    """Ask a site; further statements are run only if it has what they are about."""
    row = _EVERYTHING.run(connection).one()._mapping
    found: dict[str, Any] = {name: row[name] for name in _VALUES}
    found |= {name: int(row[name] or 0) for name in _COUNTS}
    found |= {name: _rows(row[name]) for name in _LISTS}
    found["answers"] = [AnswerStatus(**vars(one)) for one in found["answers"]]
    found["backlog"] = [_backlog(one) for one in found["backlog"]]
    return Reading(
        **found,
        seconds=row["seconds"],
        resolved=resolved_by_method(connection) if row["has_resolved"] else {},
        overdue=_overdue(connection, found["schedules"], row["now"]),
        numbers=leased(connection) if row["has_numbers"] else [],
    )


def _overdue(
    connection: Connection, schedules: Sequence[Row], now: datetime
) -> list[Overdue]:
    """The runs that are late; asked only if one may be."""
    since = [
        moment
        for one in schedules
        for moment in (one.next_at, one.asked_at)
        if moment and not one.disabled
    ]
    return runs.overdue(connection) if since and min(since) < now - GRACE else []


def _rows(found: Sequence[Mapping[str, Any]] | None) -> list[Row]:
    return [
        SimpleNamespace(**{name: _value(name, one[name]) for name in one})
        for one in found or ()
    ]


def _value(name: str, value: Any) -> Any:
    if value is not None and (name.endswith("_at") or name in _TIMES):
        return datetime.fromisoformat(value)
    return value


def _backlog(row: Row) -> Backlog:
    age = row.max_lag_age
    limit = None if age is None else timedelta(seconds=age)
    return backlog.of_row({**vars(row), "max_lag_age": limit})


#: Columns with times whose names do not tell.
_TIMES = ("oldest", "since", "status_since", "logs_since")

_IN_DOUBT = (
    "(SELECT count(*) FROM pg_prepared_xacts"
    " WHERE database = current_database() AND gid LIKE 'snaptide:%')"
)
_LOG_BYTES = (
    "(SELECT sum(pg_total_relation_size(part.relid)) FROM snaptide.snapshot_log AS log,"
    " pg_partition_tree(to_regclass(format('snaptide.%I', log.log_table))) AS part)"
)
_COUNTS = {
    "in_doubt": literal_column(_IN_DOUBT),
    "log_bytes": literal_column(_LOG_BYTES),
    "unexplained": unexplained_rows(),
}


def _of_backlog() -> sa.Select[Any]:
    # In seconds: JSON has intervals as texts.
    age = func.extract("epoch", backlog.VIEW.c.max_lag_age)
    columns = [one for one in backlog.VIEW.c if one.name != "max_lag_age"]
    return backlog.EVERY.with_only_columns(*columns, age.label("max_lag_age"))


def _of_groups() -> sa.Select[Any]:
    at, last = refresh_group.c, refresh_run.c
    members = select(func.count()).where(snapshot.c.refresh_group == at.name)
    steps = (
        select(last.steps)
        .where(last.refresh_group == at.name, last.ended_at == at.refreshed_at)
        .order_by(last.id.desc())
        .limit(1)
    )
    ways = (
        select(last.ways)
        .where(
            last.refresh_group == at.name, last.ways != literal_column("'{}'::jsonb")
        )
        .order_by(last.id.desc())
        .limit(1)
    )
    return select(
        *(at.name, at.master, at.refreshed_at, at.last_error, at.held_back),
        *(at.rows_inserted, at.rows_updated, at.rows_deleted, at.rows_held_back),
        cast(at.position, Text).label("seen"),
        members.scalar_subquery().label("snapshots"),
        # Of the refresh that brought what the group shows.
        steps.scalar_subquery().label("steps"),
        # Of the last one that compared rows.
        ways.scalar_subquery().label("ways"),
    ).order_by(at.name)


def _of_behind() -> sa.Select[Any]:
    """The snapshots that the last refresh of their group left behind."""
    at = snapshot.c
    return (
        select(
            *(at.schema, at.name, at.refresh_group, at.behind),
            at.last_refresh.label("refreshed_at"),
        )
        .where(at.behind.is_not(None))
        .order_by(at.schema, at.name)
    )


def _of_parked() -> sa.Select[Any]:
    at = error_transaction.c
    oldest = func.min(at.parked_at).label("oldest")
    counted = select(at.reason, func.count().label("transactions"), oldest)
    return counted.group_by(at.reason).order_by(at.reason)


def _of_readers() -> sa.Select[Any]:
    at = registered_snapshot.c
    oldest = func.min(at.refreshed_at).label("refreshed_at")
    # Nothing is kept for a snapshot that was refreshed and released since.
    kept = select(at.site_name, oldest).where(
        sa.or_(at.position.is_not(None), at.refreshed_at.is_(None))
    )
    return kept.group_by(at.site_name).order_by(at.site_name)


def _of_contracts() -> sa.Select[Any]:
    """The contracts that the site keeps as a master."""
    at, known = contract.c, registered_snapshot.c
    registered = sa.exists().where(
        known.site_id == at.site_id, known.snapshot == sa.any_(at.snapshots)
    )
    return select(
        *(at.site_name, at.refresh_group, at.state, at.reason, at.since, at.age),
        func.coalesce(at.looked_at, at.since).label("looked_at"),
        registered.label("registered"),
    ).order_by(at.site_name, at.refresh_group)


def _of_answers() -> sa.Select[Any]:
    """A row for each promise of answers, as `AnswerStatus` has it."""
    at = promise.c
    return (
        select(
            *(at.refresh_group.label("group"), refresh_group.c.master),
            cast(func.extract("epoch", at.answered_within), Double).label("within"),
            *(at.state, at.since, at.age),
            func.coalesce(at.looked_at, at.since).label("looked_at"),
        )
        .join(refresh_group)
        .where(at.answered_within.is_not(None))
        .order_by(at.refresh_group)
    )


def _of_quiet() -> sa.Select[Any]:
    at = replication_group.c
    return (
        select(quiet_group, at.name, at.definition_site)
        .join(replication_group, at.id == quiet_group.c.group_id)
        .order_by(at.id)
    )


_OF_ACTIVITY = ("kind", "subject", "done", "total", "unit", "started_at", "rate")

#: No list is called as one of its columns.
_LISTS = {
    "backlog": _of_backlog(),
    "refresh_groups": _of_groups(),
    "left_behind": _of_behind(),
    "step_times": select(refresh_step).order_by(refresh_step.c.refresh_group),
    "parked": _of_parked(),
    "readers": _of_readers(),
    "contracts": _of_contracts(),
    "publications": for_sites.of_publications(),
    "grants": for_sites.of_grants(),
    "images": for_sites.of_images(),
    "answers": _of_answers(),
    "brought": select(destination.c.name, destination.c.delivered).order_by("name"),
    "schedules": select(schedule).order_by("kind", "subject"),
    "activities": select(*(activity.c[name] for name in _OF_ACTIVITY))
    .where(running())
    .order_by("started_at"),
    "suspended": select(replication_group)
    .where(replication_group.c.status != Status.NORMAL)
    .order_by("name"),
    "quiet": _of_quiet(),
}

_VALUES = {
    "revision": revisions.OF_SITE,
    "now": func.now(),
    "looked_at": select(beat.c.looked_at).scalar_subquery(),
    "listeners": literal_column(LISTENERS),
    "log_oldest": literal_column("snaptide.log_oldest()"),
}

_HAS = {
    "has_resolved": sa.or_(
        sa.exists().select_from(resolution_record),
        sa.exists().select_from(purged_resolutions),
    ),
    "has_numbers": sa.exists().select_from(numbered_column),
}

#: It is the last value, so it tells how long those before it took.
_SECONDS = cast(
    func.extract("epoch", func.clock_timestamp() - func.statement_timestamp()), Double
)

_EVERYTHING = Prepared(
    select(
        *(value.label(name) for name, value in _VALUES.items()),
        *(as_json(found, name) for name, found in _LISTS.items()),
        *(count.label(name) for name, count in _COUNTS.items()),
        *(exists.label(name) for name, exists in _HAS.items()),
        _SECONDS.label("seconds"),
    )
)
