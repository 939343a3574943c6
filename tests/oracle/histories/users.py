"""Sessions of users that write, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from tests.oracle.histories.acts import Statement
from tests.oracle.histories.ledger import (
    Deed,
    References,
    Row,
    Rows,
    difference,
    placed,
    resolved,
)
from tests.oracle.story import Story

#: What a user may be told: by constraints, by a trigger of the master's users, and that
#: a key cannot be changed in a snapshot that lacks columns.
MAY_BE_TOLD = ("23", "40", "44", "55P03", "22001", "22P05", "0A000")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A transaction that was refused, and by which constraint."""

    state: str
    constraint: str


class Users:
    """One session at each site: all that happens there happens one by one.

    Parameters:
        seen: a row of a table, as the judge compares it.
    """

    def __init__(
        self,
        urls: Mapping[str, str],
        tables: Sequence[str],
        references: References,
        story: Story,
        seen: Callable[[str, Row], Row] = lambda _, row: row,
    ) -> None:
        self._references, self._story, self._seen = references, story, seen
        self._dump = sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT {}, to_jsonb(t) FROM {} t WHERE h = %(h)s").format(
                sql.Literal(table), sql.Identifier(table)
            )
            for table in tables
        )
        self._sessions: dict[str, psycopg.Connection[TupleRow]] = {}
        self._urls = urls
        self._made = 0

    def session(self, site: str) -> psycopg.Connection[TupleRow]:
        """The session at a site, which comes if it is not there."""
        if site not in self._sessions:
            session = psycopg.connect(self._urls[site], client_encoding="utf8")
            # One thread plays everybody: who waits for another waits for nothing.
            session.execute("SET lock_timeout = '500ms'")
            session.commit()
            self._sessions[site] = session
        return self._sessions[site]

    def close(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            with suppress(psycopg.Error):
                session.close()
        self._sessions.clear()

    def rows(self, site: str, history: int) -> Rows:
        """The rows of a history, as a site has them at this moment."""
        found = [(t, self._seen(t, row)) for t, row in self._found(site, history)]
        return resolved(placed(found), self._references)

    def plain(self, site: str, history: int) -> Rows:
        """The same, with the columns that the site has."""
        return placed(self._found(site, history))

    def _found(self, site: str, history: int) -> list[tuple[str, Row]]:
        found = self.session(site).execute(self._dump, {"h": history}).fetchall()
        return [(str(table), row) for table, row in found]

    def write(
        self,
        site: str,
        history: int,
        write: Callable[[Rows], Sequence[Statement]],
    ) -> tuple[Deed | Refusal, Rows]:
        """Make a transaction; what came of it, and the rows that were there before.

        Parameters:
            write: the statements, for somebody who has these rows before him.
        """
        session = self.session(site)
        self._made += 1
        receipt, transaction = f"{history}-{self._made}", ""
        try:
            with session.transaction():
                before = self.rows(site, history)
                for statement in write(self.plain(site, history)):
                    self._tell(site, statement)
                    session.execute(statement)
                # What is checked at commit is checked before the rows are looked at.
                session.execute("SET CONSTRAINTS ALL IMMEDIATE")
                effect = difference(before, self.rows(site, history))
                if not effect:
                    raise psycopg.Rollback
                if site != "hq":  # of whose users the master knows by itself
                    session.execute(
                        "INSERT INTO receipt VALUES (%s, %s)", [receipt, site]
                    )
                [transaction] = session.execute(
                    "SELECT pg_current_xact_id()::text"
                ).fetchone() or [""]
        except psycopg.Error as error:
            session.rollback()
            state = str(error.sqlstate)
            self._story.tell(f"{site}:   is told {state} {str(error).splitlines()[0]}")
            if not state.startswith(MAY_BE_TOLD):
                raise
            return Refusal(state, error.diag.constraint_name or ""), before
        self._story.tell(f"{site}:   {receipt} is transaction {transaction}")
        return Deed(receipt, site, history, str(transaction), effect), before

    def _tell(self, site: str, statement: Statement) -> None:
        self._story.tell(f"{site}: {statement.as_string()}")
