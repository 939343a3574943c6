"""Runs one transaction at each master of a group, and commits all of them or none.

It uses two-phase commit, with the master definition site as the last resource: the
others prepare, its own commit decides, and theirs follow. A crash in between leaves
prepared transactions at the others; the next command, or a worker there, asks the
definition site for its decision, and ends them accordingly (`groups.unfinished`).
If a server allows no prepared transactions, the masters commit one after the other.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection, TwoPhaseTransaction, select
from sqlalchemy.exc import DBAPIError

from groups.errors import GroupChanging
from sites import Site, faults
from sites.sessions import identity
from sites.tables import locks

_PREFIX = "snaptide-group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One prepared transaction; its name says what it does and which site decides."""

    group: uuid.UUID
    #: the version that the group is to have
    version: int
    #: whether the master leaves the group
    leaves: bool
    #: the master definition site
    home: str
    #: its id; None if an earlier version has prepared the transaction
    home_id: uuid.UUID | None

    @property
    def gid(self) -> str:
        """Its name, which no other prepared transaction of the server has."""
        kind = "leave" if self.leaves else "arrange"
        number = uuid.uuid4().hex[:8]
        if self.home_id is not None:
            number = f"{number}.{self.home_id.hex}"
        return f"{_PREFIX}:{self.group}:{self.version}:{kind}:{number}:{self.home}"


def prepared(connection: Connection) -> dict[str, Branch]:
    """The branches that are prepared in this database, by name."""
    gids = connection.scalars(
        sa.text(
            "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, :prefix)"
            " AND database = current_database()"
        ),
        {"prefix": f"{_PREFIX}:"},
    )
    return {gid: _branch(gid) for gid in gids}


def _branch(gid: str) -> Branch:
    _, group, version, kind, number, home = gid.split(":", 5)
    _, _, home_id = number.partition(".")
    return Branch(
        group=uuid.UUID(group),
        version=int(version),
        leaves=kind == "leave",
        home=home,
        home_id=uuid.UUID(home_id) if home_id else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The version of a group that the master definition site decides by its commit."""

    group: uuid.UUID
    version: int
    #: the master definition site
    home: str
    #: masters that leave the group
    leaving: Sequence[str] = ()

    def branch(self, master: str, home_id: uuid.UUID) -> str:
        """The name of the prepared transaction that is a master's part of it."""
        return Branch(
            group=self.group,
            version=self.version,
            leaves=master in self.leaving,
            home=self.home,
            home_id=home_id,
        ).gid


def exclusively(home: Site, group: uuid.UUID) -> AbstractContextManager[Connection]:
    """Keep others from changing a group, see `locks.alone`.

    Parameters:
        home: the master definition site.

    Raises:
        GroupChanging: another session is changing the group.
    """
    message = f"Another command is changing group {group}."
    busy = partial(GroupChanging, message, group=str(group))
    return locks.alone(home, "snaptide.group", str(group), busy)


def is_alive(connection: Connection) -> bool:
    """Whether a session goes on, with the locks that it holds."""
    if connection.invalidated:
        return False
    try:
        connection.execute(select(1))
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        return False
    return True


@contextmanager
def at_all(
    home: Site, masters: Sequence[str], decision: Decision
) -> Iterator[Mapping[str, Connection]]:
    """Open a transaction at each of these masters; all commit at the end, or none.

    They wait for no lock longer than a moment.

    Parameters:
        home: the master definition site; one of them.
        masters: in the order of commits, if a server allows no prepared transactions.
        decision: the decision that the commit at home makes.

    Raises:
        SiteUnreachable, SiteNotInitialised, SiteChanged: one of them cannot take part.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of one.
    """
    with ExitStack() as stack:
        connections = {
            name: stack.enter_context(home.peer(name).session()) for name in masters
        }
        # Before a transaction begins at any of them.
        ids = {name: identity.read(one).site_id for name, one in connections.items()}
        prepared = all(map(can_prepare, connections.values()))
        branches: dict[str, TwoPhaseTransaction] = {}
        for name, connection in connections.items():
            connection.rollback()  # only asked
            if prepared and name != home.name:
                branches[name] = connection.begin_twophase(
                    decision.branch(name, ids[home.name])
                )
            identity.confirm(connection, name)
            locks.briefly(connection)
        yield connections
        for name, branch in branches.items():
            _prepare(connections[name], branch)
            faults.point("group.after_prepare")
        if branches:
            _decide(connections, home.name, branches)
        else:
            for connection in connections.values():
                connection.commit()
                faults.point("group.after_commit")


def can_prepare(connection: Connection) -> bool:
    """Whether a server allows prepared transactions."""
    setting = sa.text("SELECT current_setting('max_prepared_transactions')::int > 0")
    return bool(connection.scalar(setting))


def _prepare(connection: Connection, branch: TwoPhaseTransaction) -> None:
    """Prepare one branch; if the server refuses, raise its error."""
    try:
        branch.prepare()
    except BaseException:
        # The driver takes it for prepared: its rollback would fail, and hide the error.
        connection.invalidate()
        raise


def _decide(
    connections: Mapping[str, Connection],
    home: str,
    branches: Mapping[str, TwoPhaseTransaction],
) -> None:
    """Commit at home, then at the others; `unfinished` ends branches that are lost."""
    try:
        connections[home].commit()
        faults.point("group.after_decision")
    except BaseException:
        # It may have committed: prepared branches must not be rolled back.
        for name in branches:
            connections[name].invalidate()
        raise
    failed: list[BaseException] = []
    for name, branch in branches.items():
        try:
            faults.point("group.before_branch")
            branch.commit()
        except BaseException as error:
            # Closing it would roll it back; and the next branches have to follow.
            connections[name].invalidate()
            failed.append(error)
    if failed:
        raise failed[0]
