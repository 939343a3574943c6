"""Begins the moment of the master that a refresh reads.

Before that the two sides agree on their last contact, and the master keeps its logs for
all snapshots of the group. Where another refresh of the same call has begun a moment
lately (`snapshots.refreshing.shared_moments`), and all this was so in it, that one
serves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from deferred.batches import reconcile
from masters.log import catalog as log_catalog
from masters.log import registration, site_ddl
from masters.log.catalog import find_log
from masters.numbers import contact as numbers
from sites import faults
from sites.capture import position
from sites.names import QualifiedName
from sites.sessions import peers
from sites.sessions.identity import Identity
from sites.sessions.peers import Pair
from snapshots.creating import follow_ddl
from snapshots.creating.follow_ddl import DdlWaits
from snapshots.definitions.refresh_notes import START
from snapshots.differences import difference
from snapshots.differences.moment import Facts
from snapshots.refreshing.shared_moments import SharedMoment
from snapshots.refreshing.task import Task, hold_master, kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A moment of the master that has begun, and what was asked before."""

    #: in the moment
    connection: Connection
    moment: SharedMoment
    pair: Pair
    #: the snapshots that were registered at the master all the time
    registered: set[str]
    #: by table
    logs: Mapping[QualifiedName, str]

    @property
    def facts(self) -> Facts:
        """What is the same for all refreshes that read in the moment."""
        return self.moment.facts


def at_master(task: Task, site: Connection, until: ExitStack) -> Begun:
    """Begin a moment of the master, or read in one that another refresh has begun.

    Parameters:
        site: outside a transaction.
        until: closes the session at the master, and ends the moment with the last
            refresh that reads in it.

    Raises:
        DdlWaits: the site has to follow DDL first.
        As `reconcile.confirm_for_refresh` and `hold_master` do.
    """
    return _joined(task, until) or _own(task, site, until)


def _own(task: Task, site: Connection, until: ExitStack) -> Begun:
    engine, name = task.master.engine, task.group.master
    with ExitStack() as opened:
        master = task.master.open(engine)
        opened.callback(master.close)
        # Check that neither side was restored to before their last contact.
        pair, row = reconcile.confirm_for_refresh(
            site, master, task.here, name, _AT_MASTER, **_asked(task)
        )
        if task.group.numbered:
            numbers.keep_supplied(site, master, pair)
        if _has_ddl(task, row):
            raise DdlWaits
        registered = _registered(master, task, row, pair)
        faults.point("refresh.after_register")
        logs = log_catalog.names(row.logs)
        hold_master(master, task.members, "refresh", logs.values())
        moment = task.moments.offer(
            master,
            task.master,
            task.tables(),
            [*logs.values()],
            plain=task.moments.shared and _is_plain(task),
        )
        opened.pop_all()
    until.enter_context(moment.read_by(master))
    return Begun(
        connection=master, moment=moment, pair=pair, registered=registered, logs=logs
    )


def _joined(task: Task, until: ExitStack) -> Begun | None:
    """Read in a moment that is offered, if all is there that this refresh needs."""
    moment = task.moments.find(task.master, task.tables(), task.since)
    if moment is None or not _is_plain(task):
        return None
    session = moment.session()
    if session is None:
        return None
    with ExitStack() as opened:
        master = opened.enter_context(moment.read_by(session))
        name, me = task.group.master, task.here.identity
        there = reconcile.look_there(master, name, me, _AT_MASTER, **_asked(task))
        pair, row = peers.paired(task.here, there), there.row
        if not (
            pair.remembers_the_same and reconcile.has_agreed(task.here, there.identity)
        ):
            # They have met since, or have to agree first.
            return None
        pair.confirm()
        registered = kept(registration.known(row.registered), task.members)
        logs = log_catalog.names(row.logs)
        whole = registered == {m.key for m in task.members}
        if not whole or _has_ddl(task, row) or moment.logs != _sorted(logs):
            return None
        until.push(opened.pop_all())
    return Begun(
        connection=master, moment=moment, pair=pair, registered=registered, logs=logs
    )


def _sorted(logs: Mapping[QualifiedName, str]) -> tuple[str, ...]:
    return tuple(sorted(logs.values()))


def _is_plain(task: Task) -> bool:
    """Whether a refresh only reads at its master, and begins at once."""
    return (
        difference.is_warm()
        and not task.left
        and not task.group.numbered
        and all(member.loaded for member in task.members)
    )


def _has_ddl(task: Task, row: Row[Any]) -> bool:
    if not row.site_ddl:
        return False
    return bool(follow_ddl.waiting(site_ddl.of(row.site_ddl), task.members))


def start_spark(task: Task, begun: Begun) -> None:
    """Start Spark before the moment that is compared, if it is needed and cold.

    The start takes seconds. If the moment were held meanwhile, the master could not
    clean up old rows, and no session could alter the tables.
    """
    if any(member.loaded for member in task.members) and not difference.is_warm():
        task.steps.begin(START)
        begun.connection.rollback()
        difference.session()
        hold_master(begun.connection, task.members, "refresh")


def _registered(master: Connection, task: Task, row: Row[Any], pair: Pair) -> set[str]:
    """Have the master keep its logs for all snapshots; those it kept them for before.

    Parameters:
        row: what the master was asked.
    """
    registered = kept(registration.known(row.registered), task.members)
    registered |= _take_over(master, task, registered)
    registered |= _take_back(master, task, registered, pair.master)
    _register_new(master, task, registered)
    return registered


def _register_new(connection: Connection, task: Task, known: Collection[str]) -> None:
    """Register the snapshots for which the master does not keep its log yet; commits.

    These are about to be loaded; or the master forgot them, and they will be
    compared completely.

    Parameters:
        connection: to the master, outside a transaction.
        known: those that were registered a moment ago.
    """
    new = [m.key for m in task.members if not (m.loaded and m.key in known)]
    if not new:
        return
    with connection.begin():
        for member in task.members:
            if member.key in known or find_log(connection, member.master) is None:
                continue
            registration.register(
                connection,
                site_id=task.who.site_id,
                site_name=task.site.name,
                snapshot=member.key,
                table=member.master,
                parents=[*member.asked],
                updatable=member.updatable,
            )
        here = position.current(connection)
        registration.advance(connection, task.who.site_id, new, here)


def _take_over(connection: Connection, task: Task, known: Collection[str]) -> set[str]:
    """Have the master keep its logs for snapshots since the image that filled them.

    They were loaded while the master was away, and it has kept its logs for the image.
    Commits.

    Parameters:
        connection: to the master, outside a transaction.
        known: the snapshots for which it keeps them already.

    Returns:
        Those for which it does now.
    """
    found: set[str] = set()
    for member in task.members:
        shown = task.group.shown_by(member)
        if member.key in known or not (member.image and member.loaded and shown):
            continue
        if member.asked:
            continue
        with connection.begin():
            found |= registration.take_over(
                connection,
                task.who.site_id,
                {member.key: member.master},
                member.image,
                shown,
            )
    return found


def _take_back(
    connection: Connection, task: Task, known: Collection[str], master: Identity
) -> set[str]:
    """Have the master keep its logs again for snapshots that it has released; commits.

    They are kept from the moment on that the site shows. If the logs still reach back
    to it, the refresh is fast.

    Parameters:
        connection: to the master, outside a transaction.
        known: the snapshots for which it keeps them already.
        master: who it is now: a position of another incarnation means nothing.

    Returns:
        Those for which it does now.
    """
    shown = {
        member.key: seen
        for member in task.members
        if member.key not in known
        and member.loaded
        and (seen := task.group.shown_by(member))
    }
    if not shown or task.group.incarnation != master.incarnation:
        return set()
    with connection.begin():
        found = registration.take_back(connection, task.who.site_id, shown)
    return kept(found, task.members)


#: What the master is asked, besides who it is.
_AT_MASTER = (registration.REGISTERED, log_catalog.NAMES, site_ddl.FOR_SITE)


def _asked(task: Task) -> dict[str, Any]:
    """The parameters of these."""
    asked: dict[str, Any] = {
        "its_snapshots": [member.key for member in task.members],
        **log_catalog.asked(task.tables()),
    }
    if any(member.ddl_followed for member in task.members):
        asked |= site_ddl.asked(follow_ddl.followed(task.members))
    return asked
