"""Lets a new master join while the others work: its rows are copied from one of them.

For a moment users cannot write and no change is on its way, so all masters have the
same rows. In that moment the copy's view of one master is taken, and at every master
the queue for the new one begins. Users go on while the rows are copied; until all rows
are there, nothing is pushed to the new master, and its users are refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import Connection, select
from tenacity import stop_after_attempt

from groups import copying, shape
from groups import group as groups
from groups.change import (
    Connections,
    administered,
    change,
    lock_alike,
    refuse_busy,
    refuse_parked,
)
from groups.define import forget_former, refuse_other_group, remove_master
from groups.errors import (
    CannotReplicate,
    GroupBusy,
    GroupChanging,
    MasterExists,
    NotEmpty,
)
from groups.everywhere import exclusively, is_alive
from groups.group import Group, Master, TargetType, changed
from groups.pushes import push_round, routes_between
from groups.relay import ledger
from groups.unfinished import finish
from sites import QualifiedName, Site, faults, retry
from sites.progress import Progress
from sites.sessions import identity
from sites.tables import locks
from sites.tables.table import describe

#: How often all masters push before users count as quicker than the pushes.
ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReport:
    """A master that has joined."""

    group: str
    master: str
    copied_from: str
    rows: int


def join_master(
    home: Site,
    name: str,
    master: str,
    *,
    source: str | None = None,
    via: str | None = None,
    progress: Progress | None = None,
) -> JoinReport:
    """Add a master, a full peer, and copy the rows of the group's tables to it.

    Users of the other masters wait only for a moment; its own users are refused until
    the rows are there. If the command is interrupted, run it again: it starts over.

    Parameters:
        home: the master definition site.
        master: the site; it has the tables, and they are empty.
        source: the master that the rows come from; the definition site by default.
        via: the one master that it exchanges changes with; all of them by default.
        progress: is told how many rows have come.

    Raises:
        NoSuchGroup, NotDefinitionSite, NoSuchMaster, MasterExists, UnknownTable.
        BadPaths: `via` is read-only, or joining itself.
        NotEmpty, TablesDiffer, CannotReplicate: nothing was changed. The last one
            also if `source` may have other rows than the group, or not all yet.
        GroupBusy: users are quicker than the pushes, or an error queue has changes of
            the group, which a retry would not bring to the new master; nothing was
            changed.
        GroupChanging: another session lets it join, or may have done so meanwhile.
        LoadFailed: its tables do not take the rows.
    """
    model = home.peer(source or home.name)
    id_ = administered(home, name).id
    with exclusively(home, uuid.uuid5(id_, master)) as alone, ExitStack() as stack:
        before = administered(home, name)
        _refuse_as_model(before.master(model.name))
        if master in before.names:
            _take_back(home, before, master, model.name)
        view = _begun(home, model, name, master, via, stack)
        with home.peer(master).transaction() as there:
            ledger.take_over(view, there)
        faults.point("group_join.after_begin")
        begun = administered(home, name)
        rows = copying.copy(view, model, home.peer(master), begun, progress)
        faults.point("group_join.after_copy")
        change(home, name, lambda group, _: _opened(group, master, begun, alone))
    return JoinReport(group=name, master=master, copied_from=model.name, rows=rows)


def _refuse_as_model(model: Master) -> None:
    """Make sure that a master has all rows of the group, and no others.

    Raises:
        CannotReplicate: it may have others, or has not all of them yet.
    """
    if model.joined and model.target_type is not TargetType.UNPROTECTED_READ_ONLY:
        return
    why = (
        "may have other rows"
        if model.joined
        else "is joining: it does not have all rows yet"
    )
    raise CannotReplicate(
        f"{model.name} {why}. Copy from another master.", master=model.name
    )


def _take_back(home: Site, group: Group, master: str, model: str) -> None:
    """Undo a join that was cut off: empty the site's tables, and remove the master.

    Raises:
        MasterExists: it has joined.
    """
    if group.master(master).joined:
        raise MasterExists(
            f"{master} is already a master of {group.name}.", master=master
        )
    # Transactions that the last attempt has left prepared would lock the tables.
    for name in group.names:
        finish(home.peer(name))
    # In this order: if this is cut off, the site is still a master, and emptied again.
    copying.empty(home.peer(master), group, model)
    faults.point("group_join.after_empty")
    remove_master(home, group.name, master, force=True)


def _begun(
    home: Site,
    model: Site,
    name: str,
    master: str,
    via: str | None,
    stack: ExitStack,
) -> Connection:
    """Have the queues for the new master begin, and hold a view of that moment.

    Parameters:
        stack: holds the view, and nothing else.
    """
    views: list[Connection] = []

    def with_master(group: Group, connections: Connections) -> Group:
        stack.close()  # the view of a failed attempt would hold vacuum back
        there = connections[master]
        after = groups.with_master(group, Master(name=master, joined=False), via)
        forget_former(there, master, group)
        both = {one: connections[one] for one in (home.name, master)}

        def refuse_unlike(table: QualifiedName) -> None:
            refuse_other_group(master, groups.group_of(there, table), str(table))
            shape.refuse_different(both, table, home.name)

        # Of an attempt after which the master was removed instead of joining again.
        copying.end(there, group)
        lock_alike(connections, group.tables, refuse_unlike)
        for table in group.tables:
            _refuse_rows(there, table, master)
        refuse_busy(connections, group.tables)
        refuse_parked(connections, group.tables)
        views.append(stack.enter_context(_one_moment(model, group.tables)))
        return after

    def push_first() -> None:
        push_round(home, routes_between(home, administered(home, name).names))

    for attempt in retry.on(
        GroupBusy,
        # A push does not move parked transactions.
        when=lambda busy: "destination" in busy.facts,
        stop=stop_after_attempt(ATTEMPTS),
        between=push_first,
    ):
        with attempt:
            change(home, name, with_master, joining=[master])
    return views[-1]


@contextmanager
def _one_moment(model: Site, tables: Sequence[QualifiedName]) -> Iterator[Connection]:
    """A session that sees a master as it is now, whatever comes.

    Tables that DDL rewrites, as for a change of a type, would look empty to it: it
    keeps such DDL away from all of them, also from those that are copied last.
    """
    with model.session() as plain:
        view = plain.execution_options(isolation_level="REPEATABLE READ")
        locks.briefly(view)
        locks.against_ddl(view, *tables)
        identity.confirm(view, model.name)
        yield view


def _opened(group: Group, master: str, begun: Group, alone: Connection) -> Group:
    """Let users of the new master write, and the others push to it.

    Parameters:
        begun: the group as the copy found it.
        alone: the session that keeps others from having the same master join.

    Raises:
        GroupChanging: another session may have emptied it, to copy the rows itself.
    """
    group.master(master)
    if group.version != begun.version and not is_alive(alone):
        raise GroupChanging(
            f"The session that let {master} join was ended, and the group has changed.",
            group=group.name,
            master=master,
        )
    return changed(
        group,
        masters=tuple(
            replace(one, joined=True) if one.name == master else one
            for one in group.masters
        ),
    )


def _refuse_rows(connection: Connection, name: QualifiedName, master: str) -> None:
    rows = describe(connection, name).sql()
    if connection.execute(select(sa.literal(1)).select_from(rows).limit(1)).first():
        raise NotEmpty(f"{name} at {master} has rows.", table=str(name), master=master)
