"""The moments of a check of a group: one of each master, and then a later one.

The later moments are only asked for what was queued, never for rows (`groups.check`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import permutations
from typing import TypeVar

from sqlalchemy import Connection, select, text
from tenacity import stop_after_attempt, wait_fixed

from deferred.batches import reconcile
from deferred.batches.marker import Marker
from deferred.catalog import destination, push_marker
from deferred.queues.queue import Queue
from groups import group as groups
from groups import table_queue
from groups.errors import CheckDisturbed, MasterUnreadable
from groups.group import Group, Master, TargetType
from sites import QualifiedName, Site, retry
from sites.capture import position
from sites.catalog import SCHEMA
from sites.errors import NotGranted, SiteUnreachable
from sites.sessions import identity, lost
from sites.sessions.identity import Identity
from sites.sessions.site import autocommit
from snapshots.keys import Side
from snapshots.refreshing.task import hold

#: How often a check begins anew if the group or its queues change again and again.
ATTEMPTS = 10

_Result = TypeVar("_Result")

#: A place in the batches of a sender: batch and order number.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a master knows of one of its destinations."""

    #: the destination's incarnation that its batches belong to; None before they agree
    incarnation: uuid.UUID | None
    #: calls up to this place are purged
    purged: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A master at its moment, and its session of a later one."""

    name: str
    at: Connection
    later: Connection
    side: Side
    who: Identity
    #: which of its transactions the moment shows
    position: str
    #: by id of the sender, how far its transactions have come, at the moment
    markers: Mapping[uuid.UUID, Marker]
    #: by destination, at the moment
    sent: Mapping[str, Sent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """All masters that are compared."""

    group: Group
    masters: tuple[Moment, ...]
    left_out: Mapping[str, str]
    away: tuple[str, ...]
    #: by master, the queues of the tables there, once for each destination
    queues: Mapping[str, Sequence[Queue]]
    #: why it is not known which changes have come from one master to another
    doubts: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def master(self, name: str) -> Moment | None:
        """One of those that are compared."""
        return next((one for one in self.masters if one.name == name), None)


def undisturbed(
    site: Site,
    name: str,
    tables: Sequence[QualifiedName],
    work: Callable[[Held], _Result],
) -> _Result:
    """Do some work while moments are held, anew if the group or a queue changes.

    Parameters:
        work: may begin anew, too: it then raises `CheckDisturbed`.

    Raises:
        CheckDisturbed: they changed again and again. Else as `held`.
    """
    stop = stop_after_attempt(ATTEMPTS)
    tries = retry.on(CheckDisturbed, stop=stop, wait=wait_fixed(0.1))
    for number, attempt in enumerate(tries, 1):
        with attempt, held(site, name, tables, last=number == ATTEMPTS) as found:
            return work(found)
    raise AssertionError("the last attempt raises")


@contextmanager
def held(
    site: Site, name: str, tables: Sequence[QualifiedName], *, last: bool
) -> Iterator[Held]:
    """Hold one moment of each master, and a later one, as long as the block.

    Parameters:
        site: any master of the group.
        tables: those that are compared.
        last: leave out a master whose description of the group is not the newest,
            instead of having the check begin anew.

    Raises:
        NoSuchGroup, UnknownTable.
        CheckDisturbed: the group or a queue has changed; hold them again.
        MasterUnreadable: our user may not read a table of a master.
        SiteUnreachable: a master went away after its moment had begun.
        SiteChanged, SiteRestored, SiteReplaced: a database was restored or replaced.
    """
    group = _described(site, name)
    with ExitStack() as stack:
        left_out, away = dict[str, str](), list[str]()
        pairs: dict[str, tuple[Connection, Connection]] = {}
        for master in group.masters:
            why = _not_compared(master)
            if why is not None:
                left_out[master.name] = why
                continue
            try:
                pairs[master.name] = _sessions(site.peer(master.name), stack)
            except SiteUnreachable as error:
                left_out[master.name] = error.message
                away.append(master.name)
        both = [(one, each) for one, pair in pairs.items() for each in pair]
        stack.enter_context(lost.told(*both))
        known = _confirm(group, {one: at for one, (at, _) in pairs.items()})
        for one, (at, _) in pairs.items():
            _begin(one, at, tables)
            here = groups.find_by_id(at, group.id)
            if here is None or here.version != group.version:
                _disturbed(f"{one} has another version of group {name}.", last=last)
                left_out[one] = "its description of the group is not the newest"
                away.append(one)
        found = tuple(
            _moment(site.peer(one), known[one], *pair)
            for one, pair in pairs.items()
            if one not in left_out
        )
        queues = {one.name: _later(one, group, tables) for one in found}
        yield Held(
            group=group,
            masters=found,
            left_out=left_out,
            away=tuple(away),
            queues=queues,
            doubts=_doubts(found, last=last),
        )


def _described(site: Site, name: str) -> Group:
    """The group as its definition site knows it, or else as this master does."""
    with identity.confirmed(site) as connection:
        group = groups.get(connection, site.name, name)
    if group.definition_site != site.name:
        with (
            suppress(SiteUnreachable),
            identity.confirmed(site.peer(group.definition_site)) as connection,
        ):
            return groups.find_by_id(connection, group.id) or group
    return group


def _not_compared(master: Master) -> str | None:
    if not master.joined:
        return "it is joining: its rows are not there yet"
    if master.target_type is TargetType.UNPROTECTED_READ_ONLY:
        return "it is an unprotected read-only master, which may have other rows"
    return None


def _sessions(site: Site, stack: ExitStack) -> tuple[Connection, Connection]:
    return (
        stack.enter_context(site.session()),
        stack.enter_context(site.session()),
    )


def _confirm(
    group: Group, connections: Mapping[str, Connection]
) -> dict[str, Identity]:
    """Make sure that no master was restored, by what the others remember of it.

    Raises:
        SiteChanged, SiteRestored, SiteReplaced: one was.
    """
    with autocommit(*connections.values()):
        known = {name: identity.confirm(at, name) for name, at in connections.items()}
        looks = {name: reconcile.look(at, name) for name, at in connections.items()}
    ways = {(path.local, path.target) for path in group.paths}
    for one, other in permutations(connections, 2):
        if (one, other) in ways:
            here, there = connections[one], connections[other]
            with autocommit(there):
                them = reconcile.look_there(there, other, known[one])
            reconcile.compared(here, there, looks[one], them)
    return known


def _begin(name: str, at: Connection, tables: Sequence[QualifiedName]) -> None:
    try:
        hold(at, tables, gone="A table of the group was dropped during the check.")
    except NotGranted as error:
        user = at.engine.url.username
        raise MasterUnreadable(
            f"{user}, the user of {name}, may not read a table: {error.message}",
            master=name,
        ) from error
    at.execute(text("SET TRANSACTION READ ONLY"))


def _moment(site: Site, who: Identity, at: Connection, later: Connection) -> Moment:
    mark = push_marker.c
    return Moment(
        name=site.name,
        at=at,
        later=later,
        side=Side(site=site, at=at),
        who=who,
        position=position.current(at),
        markers={
            row.origin_id: Marker(batch_no=row.batch_no, order_no=row.order_no)
            for row in at.execute(select(mark.origin_id, mark.batch_no, mark.order_no))
        },
        sent=_sent(at),
    )


def _sent(connection: Connection) -> dict[str, Sent]:
    to = destination.c
    rows = connection.execute(
        select(to.name, to.incarnation, to.purged_batch, to.purged_order)
    )
    return {
        row.name: Sent(
            incarnation=row.incarnation, purged=(row.purged_batch, row.purged_order)
        )
        for row in rows
    }


def _later(one: Moment, group: Group, tables: Sequence[QualifiedName]) -> list[Queue]:
    """Begin the later moment of a master, and read which queues it has.

    Raises:
        CheckDisturbed: the group has changed.
    """
    with autocommit(one.later):
        before = table_queue.found(one.later, *tables)
    logs = {QualifiedName(SCHEMA, queue.queue_table) for queue in before}
    hold(one.later, (), sorted(logs), gone="A queue was dropped during the check.")
    one.later.execute(text("SET TRANSACTION READ ONLY"))
    now = groups.find_by_id(one.later, group.id)
    found = table_queue.found(one.later, *tables)
    tables_now = {QualifiedName(SCHEMA, queue.queue_table) for queue in found}
    if now is None or now.version != group.version or tables_now - logs:
        _disturbed(f"Group {group.name} has changed during the check.")
    return found


def _doubts(found: Sequence[Moment], *, last: bool) -> dict[tuple[str, str], str]:
    """Between which masters it cannot be told what has come.

    Raises:
        CheckDisturbed: calls were purged during the check.
    """
    doubts: dict[tuple[str, str], str] = {}
    for one in found:
        now = _sent(one.later)
        if _purged(now) != _purged(one.sent):
            _disturbed(f"{one.name} has purged its queue.")
        for other in found:
            why = _doubt(one, other, now.get(other.name))
            if why is not None:
                # A push that is under way may have come further than that moment.
                _disturbed(why, last=last)
                doubts[one.name, other.name] = why
    return doubts


def _purged(sent: Mapping[str, Sent]) -> dict[str, Place]:
    return {name: to.purged for name, to in sent.items()}


def _doubt(one: Moment, other: Moment, sent: Sent | None) -> str | None:
    if sent is None:
        return None
    mark = other.markers.get(one.who.site_id, Marker())
    came = (mark.batch_no, mark.order_no)
    if sent.incarnation != other.who.incarnation and (
        sent.incarnation or came > (0, 0)
    ):
        return (
            f"{one.name} and {other.name} have not agreed since one of them was "
            f"restored: push from {one.name} to {other.name} first"
        )
    if sent.purged > came:
        return f"{one.name} has purged calls that had not come to {other.name}"
    return None


def _disturbed(message: str, *, last: bool = False) -> None:
    """Have the check begin anew, unless it was the last time."""
    if not last:
        raise CheckDisturbed(message)
