"""Queues the corrections of a plan, pushes them, and compares the rows again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, select
from tenacity import stop_after_delay, wait_fixed

import deferred
from deferred.queues.queue import undelivered_calls
from groups import table_queue
from groups.catalog import replication_group
from groups.check import compare, moments
from groups.check.moments import Held
from groups.check.report import CheckReason
from groups.check.rows import Rows
from groups.errors import CheckDisturbed, GroupChanging
from groups.group import Group
from groups.rectify import planning, send
from groups.rectify.planning import Found, Intent, Plan, Wanted, sender_to
from groups.rectify.report import TableRectified
from sites import QualifiedName, Site, faults, retry
from sites.capture import position
from sites.extras import pa
from sites.progress import Progress
from sites.tables import locks
from sites.tables.table import describe
from sites.writing.write import parents_first
from snapshots.check import listed
from snapshots.check.report import Kind
from snapshots.keys import Keys

#: So many rows are compared once more and corrected in one transaction. It is one
#: deferred transaction, which a conflict parks as a whole.
PART = 10_000

#: How long another rectify of the same target is waited for, and at most pushed.
PATIENCE_SECONDS = 60

#: A push goes on while users write: it is ended now and then, to see what has come.
STEP_SECONDS = 2

#: A target, and one of its tables.
_Place = tuple[str, str]


def mend(
    site: Site, wanted: Wanted, plan: Plan, progress: Progress | None
) -> tuple[TableRectified, ...]:
    """Correct what is planned, push it, and compare the rows again.

    It also pushes corrections that an earlier run has queued before it was stopped.

    Raises:
        GroupChanging: another rectify of a target does not end.
        CheckDisturbed: the group or a queue changed again and again.
        As `deferred.push` does; corrections stay queued then.
    """
    queued: dict[_Place, int] = defaultdict(int)
    intents = [one for some in plan.intents.values() for one in some]
    total, gone = sum(one.keys.num_rows for one in intents), 0
    order = _order(site.peer(wanted.reference), wanted.tables)
    for target in plan.targets:
        for part in _parts(_in_order(plan.intents[target], order)):
            if progress is not None:
                progress(gone, total, "rows")
            for table, count in _write(site, wanted, plan, target, part).items():
                queued[target, str(table)] += count
            faults.point("group_rectify.after_part")
            gone += sum(keys.num_rows for keys in part.values())
        # Before the next target: what is on its way to one keeps the others waiting.
        _push(site, wanted, plan, target)
        faults.point("group_rectify.after_push")
    return _compared_again(site, wanted, plan, queued)


def _order(
    reference: Site, tables: Sequence[QualifiedName]
) -> Mapping[QualifiedName, int]:
    """The tables, parents before their children."""
    with reference.transaction() as connection:
        every = [describe(connection, name) for name in tables]
    return {name: at for at, name in enumerate(parents_first(every))}


def _in_order(
    intents: Sequence[Intent], order: Mapping[QualifiedName, int]
) -> list[Intent]:
    """Parents before their children; rows that go, the other way."""

    def when(one: Intent) -> tuple[bool, int]:
        goes, at = one.kind is Kind.EXTRA, order[one.table]
        return (goes, -at if goes else at)

    return sorted(intents, key=when)


def _parts(intents: Sequence[Intent]) -> Iterator[dict[QualifiedName, Keys]]:
    """The keys by table, of as many rows as one transaction takes."""
    part, space = dict[QualifiedName, Keys](), PART
    for one in intents:
        start = 0
        while start < one.keys.num_rows:
            keys = one.keys.slice(start, space)
            before = part.get(one.table)
            part[one.table] = (
                keys if before is None else pa.concat_tables([before, keys])
            )
            start, space = start + keys.num_rows, space - keys.num_rows
            if not space:
                yield part
                part, space = {}, PART
    if part:
        yield part


@contextmanager
def _only_one(target: Site, group: Group) -> Iterator[None]:
    """Be the only rectify of a target while the block runs.

    Raises:
        GroupChanging: another one does not end.
    """
    message = f"Another rectify of {target.name} is running."
    stop = stop_after_delay(PATIENCE_SECONDS)
    with ExitStack() as held:
        for attempt in retry.on(GroupChanging, stop=stop, wait=wait_fixed(0.1)):
            with attempt:
                busy = partial(GroupChanging, message, group=group.name)
                alone = locks.alone(target, "snaptide.rectify", str(group.id), busy)
                held.enter_context(alone)
        yield


def _write(
    site: Site,
    wanted: Wanted,
    plan: Plan,
    target: str,
    part: Mapping[QualifiedName, Keys],
) -> dict[QualifiedName, int]:
    """Compare the rows of a part once more, and queue what corrects them.

    Returns:
        By table, how many calls were queued.
    """

    def write(held: Held) -> dict[QualifiedName, int]:
        return _write_held(site, held, wanted.reference, target, part)

    with _only_one(site.peer(target), plan.group):
        return moments.undisturbed(site, wanted.group, [*part], write)


def _write_held(
    site: Site,
    held: Held,
    reference: str,
    target: str,
    part: Mapping[QualifiedName, Keys],
) -> dict[QualifiedName, int]:
    sender = site.peer(_present(held, reference, target))
    found = [_found(held, (reference, target), *one) for one in part.items()]
    some = [(pair, one.all_keys()) for one, pair in found]
    tables = [pair[0].table.qualified for pair, keys in some if keys is not None]
    _open(sender, tables, target)
    counts = dict.fromkeys(part, 0)
    with (
        site.peer(reference).transaction() as now,
        # It commits first: then the rows of the reference are let go.
        sender.transaction() as connection,
    ):
        _refuse_changed(connection, held.group)
        for pair, keys in some:
            settled = None if keys is None else send.lock(now, pair[0], keys)
            if settled is not None and settled.num_rows:
                table = pair[0].table.qualified
                way = send.way_to(connection, table, target)
                counts[table] = send.send(connection, way, now, pair, settled)
        faults.point("group_rectify.before_commit")
    return counts


def _present(held: Held, reference: str, target: str) -> str:
    """The sender to a target, if it and the two masters are compared.

    Raises:
        CheckDisturbed: one is left out by now.
    """
    names = {one.name for one in held.group.masters}
    if {reference, target} <= names:
        sender = sender_to(held.group, reference, target)
        if all(map(held.master, (reference, target, sender))):
            return sender
    raise CheckDisturbed(
        f"{reference} or {target} cannot be compared any more.", group=held.group.name
    )


def _open(sender: Site, tables: Sequence[QualifiedName], target: str) -> None:
    for attempt in locks.patiently():
        with attempt, sender.transaction() as connection:
            locks.briefly(connection)
            for table in tables:
                table_queue.open_to_corrections(connection, table, target)


def _refuse_changed(connection: Connection, group: Group) -> None:
    """Keep changes of the group out until the commit.

    Raises:
        CheckDisturbed: it has changed, or is about to.
    """
    head = replication_group.c
    # A change deletes the row, and inserts it again.
    asked = select(head.version).where(head.id == group.id)
    version = connection.scalar(asked.with_for_update(read=True, skip_locked=True))
    if version != group.version:
        raise CheckDisturbed(f"Group {group.name} is changing.", group=group.name)


def _push(site: Site, wanted: Wanted, plan: Plan, target: str) -> None:
    """Push to a target until no corrections wait for it, or patience ends.

    If others push at the same time, they take corrections along.
    """
    sender = site.peer(sender_to(plan.group, wanted.reference, target))

    def have_come() -> bool:
        if not _waits(sender, wanted.tables, target):
            return True
        deferred.push(sender, target, execution_seconds=STEP_SECONDS)
        return False

    stop = stop_after_delay(PATIENCE_SECONDS)
    retry.until(have_come, wait=wait_fixed(0.1), stop=stop)


def _waits(sender: Site, tables: Sequence[QualifiedName], target: str) -> bool:
    mine = (table_queue.correction(target),)
    with sender.transaction() as connection:
        return any(
            undelivered_calls(
                connection, replace(one, sources=mine, since=(position.START,))
            )
            for one in table_queue.found(connection, *tables)
            if one.destination == target
        )


def _compared_again(
    site: Site, wanted: Wanted, plan: Plan, queued: Mapping[_Place, int]
) -> tuple[TableRectified, ...]:
    """The reports, with what differs still of the rows that were to be mended."""
    wished: dict[_Place, list[Intent]] = defaultdict(list)
    for target, some in plan.intents.items():
        for one in some:
            wished[target, str(one.table)].append(one)

    def look(held: Held) -> dict[_Place, Counter[tuple[Kind, CheckReason]]]:
        found = {}
        for (target, table), some in wished.items():
            _present(held, wanted.reference, target)
            ends, keys = (wanted.reference, target), (one.keys for one in some)
            one, _ = _found(held, ends, some[0].table, pa.concat_tables(keys))
            found[target, table] = one.every
        return found

    still = (
        moments.undisturbed(site, wanted.group, wanted.tables, look) if wished else {}
    )
    return tuple(
        replace(
            one,
            queued=queued.get((one.target, one.table), 0),
            still=listed.counts(
                still.get((one.target, one.table), Counter()), Kind, CheckReason
            ),
        )
        for one in plan.reports
    )


def _found(
    held: Held, ends: tuple[str, str], table: QualifiedName, keys: Keys
) -> tuple[Found, tuple[Rows, Rows]]:
    """What a target has different of these rows, and the table at both masters."""
    reference, target = planning.rows_of(held, table, ends)
    pair = (reference, target)
    [found] = planning.compared(held, pair, compare.of_keys(pair, keys))
    return found, pair
