"""Mends the rows of a plan: asks a refresh for them, or queues calls for the master."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, literal, select
from tenacity import stop_after_attempt, stop_after_delay, wait_fixed
from tenacity.stop import stop_base

from deferred.catalog import deferred_transaction
from deferred.errors import PushRunning
from deferred.queues import queue, refresh_coverage
from sites import faults, retry
from sites.extras import pa
from sites.names import QualifiedName
from sites.progress import Progress
from sites.sessions.site import Site
from sites.tables.table import describe
from sites.writing.write import parents_first
from snapshots.check import compare, listed, moments
from snapshots.check.moments import Moments
from snapshots.check.reasons import RECTIFY
from snapshots.check.report import Kind, Reason
from snapshots.check.run import ATTEMPTS
from snapshots.definitions import refresh_group, snapshot, unaltered
from snapshots.definitions.snapshot import Snapshot
from snapshots.definitions.unaltered import Before
from snapshots.differences.window import Member
from snapshots.errors import (
    MassDelete,
    PositionMoved,
    RefreshRunning,
)
from snapshots.keys import Keys, as_rows, chunks
from snapshots.rectify import found, send
from snapshots.rectify.planning import GroupPlan, Intent
from snapshots.rectify.report import SnapshotRectified, Take
from snapshots.refreshing.refresh import refresh

#: So many rows are compared once more and written in one transaction. It is one
#: deferred transaction, which a conflict parks as a whole.
PART = 10_000

#: How long another refresh of the group is waited for.
PATIENCE_SECONDS = 60


@dataclass(slots=True)
class _Done:
    """How many rows of a snapshot a refresh is to read, and calls that were queued."""

    asked: int = 0
    queued: int = 0


def mend(
    site: Site,
    plan: GroupPlan,
    *,
    allow_mass_delete: bool,
    progress: Progress | None,
) -> tuple[SnapshotRectified, ...]:
    """Mend what is planned of a group, refresh it, and compare the rows again.

    It also refreshes what an earlier run has asked for or queued before it was stopped.

    Raises:
        RefreshRunning: another refresh of the group does not end.
        MassDelete, MassLeave: more rows would go than `allow_mass_delete` allows. What
            was asked for is withdrawn: later refreshes do not meet the same limit.
    """
    done: dict[str, _Done] = defaultdict(_Done)
    total, gone = sum(one.keys.num_rows for one in plan.intents), 0
    for part in _parts(_in_order(site, plan.intents)):
        if progress is not None:
            progress(gone, total, "rows")
        _write(site, plan.group, part, done)
        faults.point("rectify.after_part")
        gone += sum(one.keys.num_rows for one in part)
    if _is_outstanding(site, plan.group):
        try:
            with suppress(PushRunning):
                _refresh(site, plan.group, allow_mass_delete=allow_mass_delete)
        except MassDelete:
            _withdraw(site, plan.group)
            raise
        faults.point("rectify.after_refresh")
    return _compared(site, plan, done)


def _refresh(site: Site, group: str, *, allow_mass_delete: bool) -> None:
    """Push and refresh, and wait for others that do the same.

    Raises:
        RefreshRunning: another refresh of the group does not end.
        PushRunning: another push does not end; it may take what was queued along.
    """
    for attempt in _patiently(RefreshRunning, PushRunning):
        with attempt:
            pushed = refresh(
                site, group, allow_mass_delete=allow_mass_delete, strict=True
            ).pushed
            another = pushed is not None and pushed.another_pusher
            if another and _is_outstanding(site, group):
                raise PushRunning(f"Another push of site {site.name} is running.")


def _withdraw(site: Site, group: str) -> None:
    """Ask for nothing any more, so that later refreshes do not read the rows either."""
    with site.transaction() as connection:
        for member in snapshot.members(connection, group):
            extra = member.extra()
            connection.execute(sa.delete(extra).where(extra.c.reason == RECTIFY))


def _in_order(site: Site, intents: Sequence[Intent]) -> list[Intent]:
    """Parents before their children; rows that the master loses, the other way."""
    with site.transaction() as connection:
        tables = [describe(connection, one.snapshot.base) for one in intents]
    place = {name: at for at, name in enumerate(parents_first(tables))}

    def when(one: Intent) -> tuple[bool, int]:
        loses = one.take is Take.SITE and one.kind is Kind.MISSING
        at = place[QualifiedName(one.snapshot.schema, one.snapshot.base_table)]
        return (loses, -at if loses else at)

    return sorted(intents, key=when)


def _parts(intents: Sequence[Intent]) -> Iterator[list[Intent]]:
    part, space = list[Intent](), PART
    for one in intents:
        start = 0
        while start < one.keys.num_rows:
            keys = one.keys.slice(start, space)
            part.append(replace(one, keys=keys))
            start, space = start + keys.num_rows, space - keys.num_rows
            if not space:
                yield part
                part, space = [], PART
    if part:
        yield part


def _write(
    site: Site, group: str, part: Sequence[Intent], done: Mapping[str, _Done]
) -> None:
    """Compare the rows of a part once more, and write what is to be done about them.

    No refresh can come between the two: it would bring rows of the master that the
    calls do not begin with.
    """
    names = list(dict.fromkeys(one.snapshot.key for one in part))
    for attempt in _patiently(RefreshRunning, PositionMoved):
        with attempt, refresh_group.exclusively(site, group) as alone:
            before = unaltered.read(alone, group)
            with moments.held(site, group, names) as held:
                counts = _write_held(site, before, held, part)
    for one, count in zip(part, counts, strict=True):
        if one.take is Take.MASTER:
            done[one.snapshot.key].asked += count
        else:
            done[one.snapshot.key].queued += count


def _write_held(
    site: Site, before: Before, held: Moments, part: Sequence[Intent]
) -> list[int]:
    members = {o.snapshot.key: compare.whole(o) for o in held.seen.members}
    with site.transaction() as connection:
        before.lock(connection)
        counts = [
            _write_one(connection, held, members[one.snapshot.key], one, number)
            for number, one in enumerate(part)
            if one.snapshot.key in members
        ]
        if len(counts) < len(part):
            raise PositionMoved("A snapshot of the group was dropped.")
        faults.point("rectify.before_commit")
    return counts


def _write_one(
    connection: sa.Connection, held: Moments, member: Member, one: Intent, number: int
) -> int:
    """Ask for rows, or queue calls, if they still differ without a reason."""
    some = found.of_keys(held, member, one.keys)
    if not some.rows.num_rows:
        return 0
    keys = some.keys(member)
    if one.take is Take.MASTER:
        _ask(connection, member, keys)
        return int(keys.num_rows)
    return send.send(connection, held, member, keys, number)


def _is_outstanding(site: Site, group: str) -> bool:
    """Whether rows are asked for, or calls of rectify wait to be pushed and shown."""
    with site.transaction() as connection:
        reasons = [
            one
            for member in snapshot.members(connection, group)
            for one in _outstanding(connection, member)
        ]
        return bool(connection.scalar(select(sa.or_(*reasons))))


def _outstanding(
    connection: sa.Connection, member: Snapshot
) -> Iterator[sa.ColumnElement[bool]]:
    extra = member.extra()
    yield sa.exists().where(extra.c.reason == RECTIFY)
    calls = queue.find_queue(connection, member.key)
    if calls is not None:
        waiting = refresh_coverage.uncovered_calls(calls, 0, 0).subquery("waiting")
        made = deferred_transaction.c
        yield sa.exists().where(waiting.c.xid == made.xid, made.origin_user == RECTIFY)


def _compared(
    site: Site, plan: GroupPlan, done: Mapping[str, _Done]
) -> tuple[SnapshotRectified, ...]:
    """The reports, with what differs still of the rows that were to be mended."""
    keys: dict[str, list[Keys]] = defaultdict(list)
    for one in plan.intents:
        keys[one.snapshot.key].append(one.keys)
    if not keys:
        return plan.reports
    still: dict[str, Counter[tuple[Kind, Reason]]] = {}
    for attempt in retry.on(PositionMoved, stop=stop_after_attempt(ATTEMPTS)):
        with attempt, moments.held(site, plan.group, [*keys]) as held:
            for member in held.seen.members:
                name = member.snapshot.key
                still[name] = _still(held, compare.whole(member), keys[name])
    return tuple(
        replace(
            one,
            asked=done[one.name].asked,
            queued=done[one.name].queued,
            still=listed.counts(still.get(one.name, Counter()), Kind, Reason),
        )
        for one in plan.reports
    )


def _still(
    held: Moments, member: Member, keys: Sequence[Keys]
) -> Counter[tuple[Kind, Reason]]:
    some = found.of_keys(held, member, pa.concat_tables(keys))
    return some.left + Counter((kind, Reason.UNEXPLAINED) for kind in some.kinds)


def _patiently(*errors: type[Exception]) -> Any:
    stop: stop_base = stop_after_delay(PATIENCE_SECONDS)
    return retry.on(*errors, stop=stop, wait=wait_fixed(0.1))


def _ask(connection: Connection, member: Member, wanted: Keys) -> None:
    """Name rows of a snapshot among its extra keys, unless they are asked for already.

    Writes the extra keys; commits nothing.
    """
    snapshot = member.snapshot
    extra, names = snapshot.extra(), snapshot.key_names
    kinds = member.key_types(member.base)
    for some in chunks(wanted):
        rows = select(*as_rows(some, kinds).c).distinct().subquery("asked")
        there = sa.exists().where(
            extra.c.reason == RECTIFY, *(extra.c[k] == rows.c[k] for k in names)
        )
        given = select(*(rows.c[k] for k in names), literal(RECTIFY)).where(~there)
        connection.execute(sa.insert(extra).from_select([*names, "reason"], given))
