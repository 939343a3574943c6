"""One coordinated transaction: a site's, and at its masters what it captures."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred.control import checks_constraints, ends_transaction
from deferred.coordinator import contact, home, pending, refusal, session
from deferred.coordinator.commit import commit
from deferred.coordinator.knowledge import Knowledge
from deferred.coordinator.last import LastStatement
from deferred.coordinator.participant import Participant, Terms
from deferred.coordinator.savepoints import Savepoints
from deferred.errors import CommitFailed, TransactionControl
from deferred.queues.queue import Queue
from sites import faults

_CAPTURED = """
SELECT *, current_setting('transaction_isolation'), current_setting('lock_timeout'),
 current_setting('statement_timeout'),
 current_setting('idle_in_transaction_session_timeout')
FROM snaptide.captured_calls(%s, 2)
"""
_ORDER_LATER = """
SET CONSTRAINTS snaptide.snaptide_order_first, snaptide.snaptide_order_last,
 snaptide.snaptide_order_again DEFERRED
"""
_FORGET = "DELETE FROM snaptide.deferred_transaction WHERE xid = %s::xid8"
_CAPTURED_ALL = """
SELECT queue_id, max(call_no), min(xid::text), bool_and(synchronous)
FROM snaptide.captured_calls(%s, NULL) GROUP BY queue_id
"""


class Transaction:
    """What is known of a coordinated transaction while it is open."""

    def __init__(
        self, connection: Connection, knowledge: Knowledge, limits: Mapping[str, Any]
    ) -> None:
        self.connection = connection
        self.knowledge = knowledge
        self.participants: dict[str, Participant] = {}
        self.savepoints = Savepoints()
        #: queues that have calls, or had some
        self.touched: set[int] = set()
        #: of the site's transaction, once it has captured something
        self.xid = ""
        #: the last call that was applied
        self._seen = 0
        #: what came with the last statement's own answer
        self._asked: psycopg.Cursor[Any] | None = None
        #: how often the connection was used by then; None where nobody counts
        self._used: int | None = None
        #: its own statements are under way, which are nobody's changes
        self._busy = False
        #: how long a master, or a site that commits, may take to answer, in seconds
        self.timeout: float = limits["timeout"]
        self._terms: Terms | None = None
        session.begin(connection, limits)

    @property
    def driver(self) -> psycopg.Connection[Any]:
        """The driver's connection to the site."""
        found: psycopg.Connection[Any] = self.connection.connection.driver_connection  # type: ignore[assignment]
        return found

    def before(self, statement: str) -> None:
        """Refuse what would end the transaction behind the coordinator's back.

        Raises:
            TransactionControl.
        """
        if self._busy:
            return
        session.watch(self.connection, statement)
        if checks_constraints(statement):
            # Calls were sent: they need no place in an order, which it would draw.
            self.driver.execute(_FORGET, [self.xid or "0"])
        if ends_transaction(statement):
            raise TransactionControl(
                f"{' '.join(statement.split())} cannot be a statement of a coordinated"
                " transaction."
            )

    def execute(self, cursor: psycopg.Cursor[Any], statement: str, values: Any) -> bool:
        """Run a statement and ask what it captured in one round trip, where possible.

        Returns:
            Whether it was run; several statements in one, and cursors of the server,
            are left to the driver.
        """
        # Those of the server are run in two steps.
        plain = type(cursor) is psycopg.Cursor and ";" not in statement
        if self._busy or not plain or session.unprepares(statement):
            return False
        with self.driver.pipeline():
            cursor.execute(statement, values)
            self._asked = self._ask()
        # The pipeline's end came after the question, and changed nothing.
        self._used = home.used(self.driver)
        return True

    def after(self, statement: str) -> None:
        """Let the masters do what a statement did: its savepoints or its calls.

        Raises:
            SynchronousConflict, RefusedByMaster, PendingCalls, SiteUnreachable: the
                transaction can only be rolled back, or to a savepoint.
        """
        if self._busy:
            return
        with self._failing_together():
            step = self.savepoints.follow(statement)
            if step is None:
                if checks_constraints(statement):
                    self.driver.execute(_ORDER_LATER)
                self.propagate()
                return
            self._asked = None
            kind, place = step
            for participant in self.participants.values():
                if kind == "back":
                    participant.back_to(place)
                elif kind == "release":
                    participant.release(place)

    def propagate(self) -> None:
        """Apply the calls that were captured since the last time."""
        asked, self._asked = self._asked or self._ask(), None
        rows = asked.fetchall()
        if not rows:
            return
        if self._terms is None:
            self._agree(rows[0][7:])
        if len(rows) > 1 or not self._apply_one(*rows[0][:7]):
            self._apply_all()
        faults.point("synchronous.after_apply")

    def commit(self) -> None:
        """Commit at the site and all masters, or nowhere.

        Raises:
            CommitFailed, OutcomeUnknown, and what the last statement's calls raise.
        """
        if self.driver.info.transaction_status is TransactionStatus.INERROR:
            raise CommitFailed("A statement of the transaction failed.")
        if self._used is None or self._used != home.used(self.driver):
            with self._failing_together():
                self.propagate()
        self._busy = True
        commit(self)

    def last_statement(self, masters: Container[str]) -> LastStatement:
        """What is left to do at the site, where these masters will commit."""
        queues = (
            self.knowledge.queue(self.connection, number)
            for number in sorted(self.touched)
        )
        return self.knowledge.last_statement(
            [queue for queue in queues if queue.destination in masters]
        )

    def end(self) -> None:
        """Roll back at the masters what is open there."""
        participants, self.participants = self.participants, {}
        for participant in participants.values():
            participant.end()

    def _ask(self) -> psycopg.Cursor[Any]:
        asked = self.driver.execute(_CAPTURED, [self._seen], prepare=True)
        self._used = home.used(self.driver)
        return asked

    def _agree(self, settings: Sequence[str]) -> None:
        """Take what the site's session is set to for its masters too."""
        level, lock_timeout, statement_timeout, idle_timeout = settings
        self._terms = Terms(
            origin=self.knowledge.site.name,
            isolation_level=level,
            lock_timeout=lock_timeout,
            statement_timeout=statement_timeout,
            idle_timeout=idle_timeout,
            timeout=self.timeout,
        )

    def _apply_one(
        self,
        queue_id: int,
        call_no: int,
        kind: str,
        old: Sequence[str | None],
        new: Sequence[str | None],
        synchronous: bool,
        xid: str,
    ) -> bool:
        """Apply the only call that there is in the short way, where that is open."""
        queue = self.knowledge.queue(self.connection, queue_id)
        self._note(queue, xid)
        participant = self._participant(queue)
        statement = self.knowledge.statement(participant.connect(), queue, kind)
        if statement is None or not statement.fits(old, new):
            return False
        if not synchronous:
            pending.refuse(self.connection, queue, xid, self._seen)
        applied = participant.apply_one(statement, old, new, self.savepoints.depth)
        if applied:
            self._seen = call_no
        return applied

    def _apply_all(self) -> None:
        """Apply all calls that there are, master by master."""
        rows = self.driver.execute(_CAPTURED_ALL, [self._seen]).fetchall()
        queues = [self.knowledge.queue(self.connection, row[0]) for row in rows]
        xid = rows[0][2]
        for queue, row in zip(queues, rows, strict=True):
            self._note(queue, xid)
            if not row[3]:
                pending.refuse(self.connection, queue, xid, self._seen)
        for name in sorted({queue.destination for queue in queues}):
            mine = [queue for queue in queues if queue.destination == name]
            outcome, calls = self._participant(mine[0]).apply_all(
                self.connection, mine, xid, self._seen, self.savepoints.depth
            )
            if outcome.unresolved:
                raise refusal.conflict(name, outcome, calls)
        self._seen = max(row[1] for row in rows)

    def _note(self, queue: Queue, xid: str) -> None:
        self.touched.add(queue.id)
        self.xid = xid

    def _participant(self, queue: Queue) -> Participant:
        found = self.participants.get(queue.destination)
        if found is None:
            assert self._terms is not None
            master = self.knowledge.site.peer(queue.destination)
            found = Participant(
                master,
                len(self.participants),
                self._terms,
                meet=partial(contact.ensure, self.knowledge, self.connection),
            )
            self.participants[queue.destination] = found
        return found

    @contextmanager
    def _failing_together(self) -> Iterator[None]:
        """Where a master fails, let the site's transaction fail as after any error."""
        self._busy = True
        try:
            yield
        except BaseException as error:
            self._fail()
            if isinstance(error, (psycopg.Error, DBAPIError)):
                raise refusal.refused(error, self._lost()) from error
            raise
        finally:
            self._busy = False

    def _lost(self) -> str | None:
        """Whose connection has gone, the site's or a master's."""
        if self.connection.invalidated or self.driver.closed:
            return self.knowledge.site.name
        lost = (name for name, one in self.participants.items() if one.is_lost)
        return next(lost, None)

    def _fail(self) -> None:
        if self.driver.info.transaction_status is TransactionStatus.INTRANS:
            with suppress(psycopg.Error):
                self.driver.execute("SELECT 'failed at a master'::int4")
