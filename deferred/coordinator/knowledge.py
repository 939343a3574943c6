"""What a coordinator need not ask again in each transaction."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import Connection

from deferred.coordinator import fast, last, line
from deferred.coordinator.fast import Statement
from deferred.coordinator.last import LastStatement
from deferred.queue import Queue, list_queues
from sites import Site, identity
from sites.identity import Identity
from sites.table import describe

#: How long a statement may be older than the master table, in seconds. An older one
#: could fail where rules would have settled what a new constraint refuses.
FRESH = 10.0


@dataclass(slots=True)
class _Known:
    statement: Statement | None
    until: float


@dataclass
class Knowledge:
    """Of one site, shared by all its coordinated transactions in this process."""

    site: Site
    #: deciding transactions that are committed at all their masters
    settled: deque[str] = field(default_factory=deque)
    _queues: dict[int, Queue] = field(default_factory=dict)
    _statements: dict[tuple[int, str], _Known] = field(default_factory=dict)
    _last: dict[tuple[int, ...], LastStatement] = field(default_factory=dict)

    @cached_property
    def who(self) -> Identity:
        """The site as a database, to be named in global transaction ids."""
        with self.site.connect() as connection:
            return identity.confirm(connection, self.site.name)

    def queue(self, connection: Connection, number: int) -> Queue:
        """A queue by its number."""
        if number not in self._queues:
            self._queues = {one.id: one for one in list_queues(connection)}
        return self._queues[number]

    def statement(
        self, master: Connection, queue: Queue, kind: str
    ) -> Statement | None:
        """The statement that applies one call; None where there is none."""
        key = (queue.id, kind)
        known = self._statements.get(key)
        if known is None or known.until < time.monotonic():
            with line.searching_as_ours(master):
                table = describe(master, queue.target)
            known = _Known(fast.build(queue, table, kind), time.monotonic() + FRESH)
            self._statements[key] = known
        return known.statement

    def last_statement(self, queues: Sequence[Queue]) -> LastStatement:
        """What a transaction with calls in these queues does before its commit."""
        key = tuple(queue.id for queue in queues)
        if key not in self._last:
            self._last[key] = last.build(queues)
        return self._last[key]
