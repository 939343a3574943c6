"""Facts that a coordinator remembers, to save asking in each transaction."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection

from deferred.queues import target_columns
from deferred.queues.queue import Queue, list_queues
from sites import Site
from sites.sessions.identity import Identity
from sites.tables import references, table_state
from sites.tables.table import describe
from synchronous import fast, last, master_connection
from synchronous.fast import Statement
from synchronous.last import LastStatement

#: How long a statement is kept, in seconds. If the master table was altered since it
#: was built, it applies nothing; until it is built anew, calls go over work tables.
FRESH = 10.0


@dataclass(slots=True)
class _Known:
    statement: Statement | None
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """When a site and a master last exchanged tokens."""

    #: from then on it is old, by the monotonic clock in seconds
    until: float
    #: when the two servers were started
    servers: tuple[object, object]


@dataclass
class SiteCache:
    """Facts about one site, shared by its coordinated transactions in this process."""

    site: Site
    #: deciding transactions that are committed at all their masters
    settled: deque[str] = field(default_factory=deque)
    #: the last contact with each master
    contacts: dict[str, Contact] = field(default_factory=dict)
    _who: Identity | None = None
    _queues: dict[int, Queue] = field(default_factory=dict)
    #: by queue, what it was seen to carry
    _carried: dict[int, str] = field(default_factory=dict)
    _statements: dict[tuple[int, str], _Known] = field(default_factory=dict)
    _last: dict[tuple[int, ...], LastStatement] = field(default_factory=dict)

    @property
    def who(self) -> Identity:
        """The site as a database, to be named in global transaction ids."""
        assert self._who is not None
        return self._who

    def site_is(self, who: Identity) -> None:
        """Learn which database the site is; if it is another one, forget the facts."""
        if self._who is not None and self._who != who:
            self._queues, self._statements, self._last = {}, {}, {}
            # A restored database gives these ids to other transactions.
            self.settled.clear()
        self._who = who

    def is_contact_old(self, master: str, servers: object = None) -> bool:
        """Whether site and master should remember a newer contact.

        Parameters:
            servers: when they were started, if that is known.
        """
        last = self.contacts.get(master)
        return (
            last is None
            or time.monotonic() >= last.until
            or servers not in (None, last.servers)
        )

    def queue(
        self, connection: Connection, number: int, carried: str | None = None
    ) -> Queue:
        """A queue by its number.

        Parameters:
            carried: the columns that it carries now, with their numbers and types, if
                the caller knows: what was learnt of it with others is forgotten.
        """
        seen = self._carried.get(number)
        if number not in self._queues or carried not in (None, seen):
            self._queues = {one.id: one for one in list_queues(connection)}
            self._statements, self._last = {}, {}
        if carried is not None:
            self._carried[number] = carried
        return self._queues[number]

    @property
    def queues(self) -> Collection[Queue]:
        """All queues of the site, once one was asked for."""
        return self._queues.values()

    def statement(
        self, connection: Connection, master: Connection, queue: Queue, kind: str
    ) -> Statement | None:
        """The statement that applies one call; None if there is none.

        Parameters:
            connection: to the site.

        Raises:
            TargetColumnsMoved: columns of the master table have exchanged names.
            ValueWouldChange: the master may round or cut values.
        """
        key = (queue.id, kind)
        known = self._statements.get(key)
        if known is None or known.until < time.monotonic():
            # A refresh may have noted other columns since it was read.
            self._queues = {one.id: one for one in list_queues(connection)}
            queue = self._queues[queue.id]
            with master_connection.searching_as_ours(master):
                statement = _build(master, queue, kind, self.who.site_id)
            known = _Known(statement, time.monotonic() + FRESH)
            self._statements[key] = known
        return known.statement

    def forget(self, queue: Queue, kind: str) -> None:
        """Build the statement for a kind of call anew when it is needed again."""
        self._statements.pop((queue.id, kind), None)

    def last_statement(self, queues: Sequence[Queue]) -> LastStatement:
        """The last statement of a transaction with calls in these queues."""
        key = tuple(queue.id for queue in queues)
        if key not in self._last:
            self._last[key] = last.build(queues)
        return self._last[key]


def _build(
    master: Connection, queue: Queue, kind: str, site_id: uuid.UUID
) -> Statement | None:
    """Build a statement; None also if the table has rules: some allow no RETURNING.

    None also for deletes, if foreign keys act on rows that the site may not know.
    """
    # Before the table is described: what is altered meanwhile makes the state another.
    state = table_state.read(master, queue.target)
    table = describe(master, queue.target)
    target_columns.refuse_moved(queue, table)
    target_columns.refuse_narrower(queue, table)
    if kind == "D" and references.acting(master, [table]):
        return None
    asked = sa.text("SELECT relhasrules FROM pg_class WHERE oid = :oid")
    # What hides rows is refused on the longer way.
    if state is None or table.hides_rows or master.scalar(asked, {"oid": table.oid}):
        return None
    return fast.build(queue, table, kind, site_id, state)
