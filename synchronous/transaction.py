"""One coordinated transaction: the site's own, and its captured calls at masters."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deferred.control import SET, checks_constraints, ends_transaction
from deferred.queues.queue import Queue
from sites import faults
from sites.sessions.exchange import driver_of
from synchronous import (
    contact,
    master_connection,
    pending,
    refusal,
    session,
)
from synchronous.errors import CommitFailed, TransactionControl
from synchronous.exchange import exchange, rows_of, run_and_ask
from synchronous.last import LastStatement
from synchronous.participant import Participant, Terms
from synchronous.prepared import Bound
from synchronous.savepoints import Savepoints
from synchronous.site_cache import SiteCache

#: The columns of a queue, with their numbers and types in the base table.
_CARRIED = sql.SQL("""
(q.columns, q.column_numbers, (
 SELECT string_agg(concat_ws(' ', a.atttypid, a.atttypmod), ',' ORDER BY a.attnum)
 FROM pg_catalog.pg_namespace n
 JOIN pg_catalog.pg_class b ON b.relnamespace = n.oid AND b.relname = q.base_table
 JOIN pg_catalog.pg_attribute a ON a.attrelid = b.oid
 WHERE n.nspname = q.base_schema AND a.attnum = ANY (q.column_numbers)
))::text
""")
_CAPTURED = (
    sql.SQL("""
SELECT c.*, {},
 current_setting('transaction_isolation'), current_setting('lock_timeout'),
 current_setting('statement_timeout'),
 current_setting('idle_in_transaction_session_timeout')
FROM snaptide.captured_calls($1, 2) c JOIN snaptide.queue q ON q.id = c.queue_id
""")
    .format(_CARRIED)
    .as_string(None)
)
_ORDER_LATER = """
SET CONSTRAINTS snaptide.snaptide_order_first, snaptide.snaptide_order_last DEFERRED
"""
_FORGET = "DELETE FROM snaptide.deferred_transaction WHERE xid = %s::xid8"
_CAPTURED_ALL = (
    sql.SQL("""
SELECT c.queue_id, max(c.call_no), min(c.xid::text), bool_and(c.synchronous), count(*),
 q.target_oid, q.target_numbers, {}
FROM snaptide.captured_calls(%s, NULL) c JOIN snaptide.queue q ON q.id = c.queue_id
GROUP BY c.queue_id, q.id
""")
    .format(_CARRIED)
    .as_string(None)
)


class Transaction:
    """The state of a coordinated transaction while it is open."""

    def __init__(
        self, connection: Connection, site_cache: SiteCache, limits: Mapping[str, Any]
    ) -> None:
        self.connection = connection
        #: the driver's connection to the site
        self.driver = driver_of(connection)
        self.site_cache = site_cache
        self.participants: dict[str, Participant] = {}
        self.savepoints = Savepoints()
        #: queues that have calls, or had some
        self.touched: set[int] = set()
        #: the id of the site's transaction, once it has captured something
        self.xid = ""
        #: the last call that was applied
        self._seen = 0
        #: how often the connection was used by then; None if it does not count
        self._used: int | None = None
        #: our own statements are under way, which change nothing for users
        self._busy = False
        #: how long a master, or a site that commits, may take to answer, in seconds
        self.timeout: float = limits["timeout"]
        self._terms: Terms | None = None
        session.begin(connection, limits)

    def execute(self, cursor: psycopg.Cursor[Any], statement: str, values: Any) -> bool:
        """Run a statement, and have the masters repeat its savepoint or calls.

        The captured calls are asked for in the same round trip, if that is possible:
        not with several statements in one, or with cursors of the server.

        Returns:
            Whether it was run; our own statements are left to the driver.

        Raises:
            TransactionControl: it would end the transaction past the coordinator.
            SynchronousConflict, RefusedByMaster, PendingCalls, WaitsForError,
                SiteUnreachable: the transaction can only be rolled back, or to a
                savepoint.
        """
        if self._busy:
            return False
        self._look_at(statement)
        asked = None
        plain = type(cursor) is psycopg.Cursor and ";" not in statement
        if plain and not session.unprepares(statement):
            question = self._question(kept=True)
            asked = run_and_ask(cursor, statement, values, question)
            self._used = session.used(self.driver)
        else:
            cursor.execute(statement, values)
        self._together(lambda: self._follow(statement, asked))
        return True

    def execute_many(
        self, cursor: psycopg.Cursor[Any], statement: str, values: Any
    ) -> bool:
        """Run a statement many times, and have the masters repeat it: see `execute`."""
        if self._busy:
            return False
        self._look_at(statement)
        cursor.executemany(statement, values)
        self._together(lambda: self._follow(statement, None))
        return True

    def complete(self) -> None:
        """Apply the calls that are left; no statement comes any more.

        Raises:
            CommitFailed: a statement failed.
            Also the errors of the last statement's calls: see `execute`.
        """
        if self.driver.info.transaction_status is TransactionStatus.INERROR:
            raise CommitFailed("A statement of the transaction failed.")
        self._catch_up()
        self._busy = True

    def last_statement(self, masters: Container[str]) -> LastStatement:
        """The last statement to run at the site, if these masters will commit."""
        queues = (
            self.site_cache.queue(self.connection, number)
            for number in sorted(self.touched)
        )
        return self.site_cache.last_statement(
            [queue for queue in queues if queue.destination in masters]
        )

    def end(self) -> None:
        """Roll back any transactions that are still open at the masters."""
        participants, self.participants = self.participants, {}
        for participant in participants.values():
            participant.end()

    def _look_at(self, statement: str) -> None:
        """Prepare for a statement, before it is run."""
        if SET.match(statement):
            # Calls that were captured before a savepoint are not undone with it.
            self._catch_up()
        session.watch(self.connection, statement)
        if checks_constraints(statement):
            # The calls were sent: they need no order number, which the check draws.
            self.driver.execute(_FORGET, [self.xid or "0"])
        if ends_transaction(statement):
            raise TransactionControl(
                f"{' '.join(statement.split())} cannot be a statement of a coordinated"
                " transaction."
            )

    def _follow(self, statement: str, asked: PGresult | None) -> None:
        """Repeat a statement at the masters, after it was run."""
        step = self.savepoints.follow(statement)
        if step is None:
            if checks_constraints(statement):
                self.driver.execute(_ORDER_LATER)
            self._propagate(asked)
            return
        kind, place = step
        for participant in self.participants.values():
            if kind == "back":
                participant.back_to(place)
            elif kind == "release":
                participant.release(place)

    def _propagate(self, asked: PGresult | None = None) -> None:
        """Apply the calls that were captured since the last time.

        Parameters:
            asked: the site's answer about them, if it was asked already.
        """
        rows = rows_of(self.driver, self._ask() if asked is None else asked)
        if not rows:
            return
        if self._terms is None:
            self._agree(rows[0][8:])
        if len(rows) > 1 or not self._apply_one(*rows[0][:8]):
            self._apply_all()
        faults.point("synchronous.after_apply")

    def _catch_up(self) -> None:
        """Apply calls that were captured past SQLAlchemy, if there may be any."""
        if self.driver.info.transaction_status is not TransactionStatus.INTRANS:
            return
        if self._used is None or self._used != session.used(self.driver):
            self._together(self._propagate)

    def _question(self, *, kept: bool) -> Bound:
        return Bound(text=_CAPTURED, values=[str(self._seen)], kept=kept)

    def _ask(self) -> PGresult:
        # Other code has used the connection: perhaps nothing is prepared any more.
        asked = exchange(self.driver, self._question(kept=False))
        self._used = session.used(self.driver)
        return asked

    def _agree(self, settings: Sequence[str]) -> None:
        """Take over the settings of the site's session for its masters."""
        level, lock_timeout, statement_timeout, idle_timeout = settings
        self._terms = Terms(
            origin=self.site_cache.site.name,
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
        carried: str,
    ) -> bool:
        """Apply the only call by one statement; False if that is not possible."""
        queue = self.site_cache.queue(self.connection, queue_id, carried)
        self._note(queue, xid)
        if len(old) != len(queue.columns):  # an older moment shows the former columns
            return False
        participant = self._participant(queue)
        statement = self.site_cache.statement(
            self.connection, participant.connect(), queue, kind
        )
        if statement is None or not statement.fits(old, new):
            return False
        if not synchronous:
            pending.refuse(self.connection, queue, xid, self._seen)
        pending.refuse_children(
            self.connection,
            queue,
            statement.keys if kind != "D" else (),
            self.site_cache.queues,
            xid,
            self._seen,
        )
        depth = self.savepoints.depth
        try:
            applied = participant.apply_one(statement, old, new, depth)
        except psycopg.errors.FeatureNotSupported:  # the table has rules now
            self.site_cache.forget(queue, kind)
            raise
        if applied:
            self._seen = call_no
        return applied

    def _apply_all(self) -> None:
        """Apply all captured calls, master by master."""
        rows = self.driver.execute(_CAPTURED_ALL, [self._seen]).fetchall()
        queues = [
            replace(
                self.site_cache.queue(self.connection, row[0], row[7]),
                target_oid=row[5],
                target_numbers=None if row[6] is None else tuple(row[6]),
            )
            for row in rows
        ]
        xid = rows[0][2]
        for queue, row in zip(queues, rows, strict=True):
            self._note(queue, xid)
            if not row[3]:
                pending.refuse(self.connection, queue, xid, self._seen)
        for name in sorted({queue.destination for queue in queues}):
            mine = {
                queue: row[4]
                for queue, row in zip(queues, rows, strict=True)
                if queue.destination == name
            }
            outcome, calls = self._participant(next(iter(mine))).apply_all(
                self.connection,
                mine,
                self.site_cache.queues,
                xid,
                self._seen,
                self.savepoints.depth,
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
            master = self.site_cache.site.peer(queue.destination)
            found = Participant(
                master,
                len(self.participants),
                self._terms,
                kept=master_connection.kept_at(self.connection),
                meet=partial(contact.ensure, self.site_cache, self.connection),
                # Known once they have met.
                site_id=lambda: self.site_cache.who.site_id,
            )
            self.participants[queue.destination] = found
        return found

    def _together(self, work: Callable[[], None]) -> None:
        """Do some work; if it fails, fail the site's transaction as any error does."""
        self._busy = True
        try:
            work()
        except BaseException as error:
            self._fail()
            if isinstance(error, (psycopg.Error, DBAPIError)):
                raise refusal.refused(error, self._lost()) from error
            raise
        finally:
            self._busy = False

    def _lost(self) -> str | None:
        """The site or master whose connection has gone."""
        if self.connection.invalidated or self.driver.closed:
            return self.site_cache.site.name
        lost = (name for name, one in self.participants.items() if one.is_lost)
        return next(lost, None)

    def _fail(self) -> None:
        if self.driver.info.transaction_status is TransactionStatus.INTRANS:
            with suppress(psycopg.Error):
                self.driver.execute("SELECT 'failed at a master'::int4")
