"""A master's part of a coordinated transaction."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred.batches import lost_rows, net_change, work
from deferred.parked import calls
from deferred.parked.calls import Call
from deferred.queues.queue import Queue
from masters.apply import ApplyUnit, Outcome, SourceTransaction, apply
from sites import Site, retry
from sites.errors import SiteUnreachable
from sites.transfer import transport
from sites.writing.triggered import USERS_SEARCH_PATH
from synchronous import master_connection, pending, session, staging
from synchronous.exchange import command, done, exchange
from synchronous.fast import Image, Statement
from synchronous.master_connection import KeptConnections
from synchronous.prepared import Bound

_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)

Done = TypeVar("Done")

_PREPARE, _COMMIT, _ROLLBACK = (
    "PREPARE TRANSACTION",
    "COMMIT PREPARED",
    "ROLLBACK PREPARED",
)

#: The work tables hold the rows of one unit at a time.
_UNIT = 1

_XID = Bound(text="SELECT pg_current_xact_id()::text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Settings of the site's transaction that hold at its masters too."""

    #: name of the site
    origin: str
    isolation_level: str
    #: as the database prints them, with their unit; 0 is none
    lock_timeout: str
    statement_timeout: str
    idle_timeout: str
    #: how long a master may take to answer, in seconds
    timeout: float

    def settings(self) -> dict[str, str]:
        """The settings of a session at a master."""
        return {
            "snaptide.origin": self.origin,
            "snaptide.coordinated": "master",
            "search_path": USERS_SEARCH_PATH,
            "lock_timeout": self.lock_timeout,
            "statement_timeout": self.statement_timeout,
            "idle_in_transaction_session_timeout": self.idle_timeout,
        }


class Participant:
    """One master, with a transaction open from its first call on."""

    def __init__(
        self,
        master: Site,
        branch: int,
        terms: Terms,
        *,
        kept: KeptConnections,
        meet: Callable[[Connection, Site], None],
        site_id: Callable[[], uuid.UUID],
    ) -> None:
        self.master = master
        self.branch = branch
        self._terms = terms
        self._lines = kept
        self._meet = meet
        self._site_id = site_id
        self._connection: Connection | None = None
        #: the driver's connection below it
        self._driver: master_connection.MasterConnection
        #: id of its transaction, once it has begun
        self.xid = ""
        self._began = False
        #: it was asked to prepare, and has not answered yet
        self._preparing = False
        #: its connection may have outdated plans, and is not kept
        self._outdated = False
        #: savepoints that are set here
        self._depth = 0
        #: how many calls were applied, by the number of savepoints set at that time
        self._applied: Counter[int] = Counter()

    @property
    def has_written(self) -> bool:
        """Whether anything that it applied is still to be committed."""
        return self.applied > 0

    @property
    def applied(self) -> int:
        """How many calls it applied that are still to be committed."""
        return self._applied.total()

    @property
    def is_lost(self) -> bool:
        """Whether the connection to the master has gone."""
        taken = self._connection
        return taken is not None and (taken.invalidated or self._driver.closed)

    @property
    def connection(self) -> Connection:
        """The connection to the master; its transaction has begun."""
        assert self._connection is not None
        return self._connection

    def connect(self) -> Connection:
        """Take a connection to the master, unless there is one.

        Raises:
            SiteUnreachable: the master does not answer.
            SiteChanged, NotAMember: it is not what it was.
        """
        if self._connection is None:
            self._connection = self._line()
            self._driver = master_connection.driver(self._connection)
        return self._connection

    def apply_one(
        self, statement: Statement, old: Image, new: Image, depth: int
    ) -> bool:
        """Apply a call by one statement; False if it has to go over work tables."""
        bound = statement.bind(old, new)
        written = self._with_plans_of_now(lambda: self._run(bound, depth))
        if written.command_tuples != 1:
            return False
        self.xid = _text(written)
        self._applied[depth] += 1
        return True

    def apply_all(
        self,
        site: Connection,
        queues: Mapping[Queue, int],
        known: Collection[Queue],
        xid: str,
        after: int,
        depth: int,
    ) -> tuple[Outcome, list[Call]]:
        """Apply the calls that a transaction captured; detect and resolve conflicts.

        Parameters:
            site: the connection that captured them.
            queues: the queues with calls for this master, each with how many.
            known: all queues of the site.
            xid: the id of the site's transaction.
            after: the last call number that was applied before.

        Returns:
            The outcome, and if it is unresolved, the calls with the master's rows.

        Raises:
            WaitsForError: a call depends on a transaction that is parked there.
            PendingCalls: a call refers to a row that waits for a push.
        """

        def work() -> tuple[Outcome, list[Call]]:
            self.xid = _text(self._run(_XID, depth))
            with master_connection.searching_as_ours(self.connection):
                return self._apply(site, list(queues), known, xid, after)

        outcome, unresolved = self._with_plans_of_now(work)
        self._applied[depth] += sum(queues.values())
        return outcome, unresolved

    def _apply(
        self,
        site: Connection,
        queues: Sequence[Queue],
        known: Collection[Queue],
        xid: str,
        after: int,
    ) -> tuple[Outcome, list[Call]]:
        connection = self.connection
        staged = [staging.stage(connection, self.master, queue) for queue in queues]
        for queue, one in zip(queues, staged, strict=True):
            keys = one.table.foreign_keys
            pending.refuse_children(site, queue, keys, known, xid, after)
        transaction = sa.select(
            sa.literal_column(f"'{int(xid)}'::xid8").label("xid"),
            sa.literal(_UNIT).label("order_no"),
        ).subquery()
        with session.printing_as_ours(site):
            for queue, one in zip(queues, staged, strict=True):
                changes = net_change.net_changes(queue, transaction, after=after)
                columns = net_change.columns_of(queue)
                transport.copy(site, changes, connection, one.source, columns)
        unit = self._unit(staged, xid)
        staging.refuse_dependent(connection, self._site_id(), unit, self.master.name)
        outcome = apply(connection, unit)
        unresolved = [
            one
            for table in (staged if outcome.unresolved else [])
            for one in calls.read(connection, table, _UNIT)
        ]
        work.clear(connection, staged)
        return outcome, unresolved

    def back_to(self, place: int) -> None:
        """Roll back to a savepoint, by its place from 1."""
        for depth in [d for d in self._applied if d >= place]:
            del self._applied[depth]
        if self._connection is None or self._depth < place:
            return  # set at the site only, after the last call
        self._driver.execute(f"ROLLBACK TO SAVEPOINT s{place}")
        self._depth = place

    def release(self, place: int) -> None:
        """Release a savepoint: calls applied since belong to the one before it."""
        kept = sum(n for d, n in self._applied.items() if d >= place)
        for depth in [d for d in self._applied if d >= place]:
            del self._applied[depth]
        if kept:
            self._applied[place - 1] += kept
        if self._connection is not None and self._depth >= place:
            self._driver.execute(f"RELEASE SAVEPOINT s{place}")
            self._depth = place - 1

    def prepare(self, gid: str) -> None:
        """Ask the master to prepare the transaction; `prepared` waits for it."""
        self._preparing = True
        command(self._driver, _PREPARE, gid)

    def prepared(self) -> None:
        """Wait until it is prepared, which ends the transaction on this connection."""
        self._preparing = False
        done(self._driver, _PREPARE)

    def commit_prepared(self, gid: str) -> None:
        """Commit the prepared transaction."""
        command(self._driver, _COMMIT, gid)
        done(self._driver, _COMMIT)

    def rollback_prepared(self, gid: str) -> None:
        """Roll back the prepared transaction, or one that is being prepared."""
        if self._preparing:
            with suppress(psycopg.Error):
                self.prepared()
        command(self._driver, _ROLLBACK, gid)
        done(self._driver, _ROLLBACK)

    def end(self) -> None:
        """Roll back a transaction that is open, and give the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None and self._outdated:
            master_connection.drop(connection)
        elif connection is not None:
            self._lines.give(self.master, connection)

    def _with_plans_of_now(self, work: Callable[[], Done]) -> Done:
        """Do some work; repeat it on a new connection if the old one may be outdated.

        If the transaction had begun before on the old connection, the work fails, and
        that connection is not kept.
        """
        begun = self._began
        try:
            return work()
        except (psycopg.Error, DBAPIError) as error:
            if self.is_lost or not retry.has_outdated_plans(error):
                raise
            self._outdated = True
            if begun:
                raise
        self.end()
        self._began, self._depth, self._outdated = False, 0, False
        return work()

    def _line(self) -> Connection:
        try:
            connection = self._lines.take(self.master, self._terms.timeout)
        except sa.exc.OperationalError as error:
            raise SiteUnreachable(
                f"Site {self.master.name} ({self.master.address}) cannot be reached:"
                f" {' '.join(str(error.orig).split())}",
                site=self.master.name,
            ) from None
        try:
            self._meet(connection, self.master)
        except BaseException:
            master_connection.drop(connection)
            raise
        master_connection.configure(connection, self._terms.settings())
        return connection

    def _run(self, statement: Bound, depth: int) -> PGresult:
        """Run a statement in the transaction, with all savepoints that the site has."""
        self.connect()
        added = range(self._depth + 1, depth + 1)
        before = [Bound(text=f"SAVEPOINT s{place}") for place in added]
        if not self._began:
            begin = f"BEGIN ISOLATION LEVEL {self._terms.isolation_level}"
            before.insert(0, Bound(text=begin))
        try:
            return exchange(self._driver, *before, statement)
        finally:
            self._began = self._driver.pgconn.transaction_status in _OPEN
            if self._began:
                # Also if the statement has failed: its savepoints are set.
                self._depth = max(self._depth, depth)

    def _unit(self, staged: Sequence[Any], xid: str) -> ApplyUnit:
        return ApplyUnit(
            number=_UNIT,
            staged=staged,
            counts=work.counts(self.connection, staged, _UNIT),
            origin=self._terms.origin,
            master=self.master.name,
            transaction_of=lambda _: SourceTransaction(
                transaction=xid, changed_at=datetime.now(UTC)
            ),
            on_lost=partial(lost_rows.write, self.connection, self._site_id()),
        )


def _text(answer: PGresult) -> str:
    """The only value of an answer."""
    return (answer.get_value(0, 0) or b"").decode()
