"""Sessions of users that write, and what they are told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from tests.oracle.conditions.acts import Pen, Row, insert
from tests.oracle.story import Story

Session = psycopg.Connection[TupleRow]
#: What users may be told: by constraints, by the check option of a view, that a row is
#: locked, and that an action of a foreign key would change a read-only snapshot.
MAY_BE_TOLD = {
    "23": "a constraint",
    "40P01": "a deadlock",
    "44": "the check option",
    "55P03": "a lock",
    "55000": "a read-only child",
}


@dataclass(slots=True)
class Users:
    """One session at each site; all that happens there happens one by one.

    Parameters:
        urls: of the sites, by name.
        readable: by site, the tables that users see.
        writable: by site, those of them that they may write.
    """

    urls: Mapping[str, str]
    readable: Mapping[str, Collection[str]]
    writable: Mapping[str, Collection[str]]
    story: Story
    #: by receipt, the site and history of each transaction that a site has committed
    deeds: dict[str, tuple[str, int]] = field(default_factory=dict)
    _sessions: dict[str, Session] = field(default_factory=dict)
    _made: int = 0

    def session(self, site: str) -> Session:
        """The session at a site, which comes if it is not there."""
        if site not in self._sessions:
            self._sessions[site] = self._opened(site)
        return self._sessions[site]

    def close(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            with suppress(psycopg.Error):
                session.close()
        self._sessions.clear()

    def write(self, site: str, pen: Pen) -> set[str]:
        """Make a transaction; return what was met."""
        found, receipts = self._written(self.session(site), site, pen)
        self.deeds |= receipts
        return found

    @contextmanager
    def holding(self, site: str, pens: Collection[Pen]) -> Iterator[set[str]]:
        """Have a user change rows, and hold them until the end of the block.

        Gives the block the receipts of what he has changed; he commits only what is
        among them still at the end.
        """
        receipts: dict[str, tuple[str, int]] = {}
        session = self._opened(site)
        try:
            self.story.tell(f"{site}: somebody begins")
            for pen in pens:
                session.execute("SELECT")  # what follows is a savepoint of it
                receipts |= self._written(session, site, pen)[1]
            kept = set(receipts)
            yield kept
            if kept:
                self.story.tell(f"{site}: commits {sorted(kept)}")
                session.commit()
                self.deeds |= receipts
        finally:
            session.close()

    def _opened(self, site: str) -> Session:
        session = psycopg.connect(self.urls[site])
        # One thread plays everybody: who waits for another waits for nothing.
        session.execute("SET lock_timeout = '300ms'")
        session.commit()
        return session

    def _written(
        self, session: Session, site: str, pen: Pen
    ) -> tuple[set[str], dict[str, tuple[str, int]]]:
        self._made += 1
        receipt = f"{pen.history}-{self._made}"
        try:
            with session.transaction():
                pen.tables = [t for t in pen.schema.names if t in self.writable[site]]
                if not pen.tables:
                    return set(), {}
                pen.rows = self._rows(session, site, pen.history)
                for statement in pen.statements():
                    self.story.tell(f"{site}: {statement.as_string()}")
                    session.execute(statement)
                if site != "hq":
                    given = {"id": receipt, "site": site}
                    session.execute(insert("receipt", given))
        except psycopg.Error as error:
            return {self._refused(site, error)}, {}
        found = {f"{name} at {'hq' if site == 'hq' else 'a site'}" for name in pen.met}
        self.story.tell(f"{site}:   done, {receipt}")
        return found, {} if site == "hq" else {receipt: (site, pen.history)}

    def _refused(self, site: str, error: psycopg.Error) -> str:
        said = str(error).splitlines()[0]
        self.story.tell(f"{site}:   is told {error.sqlstate} {said}")
        for state, reason in MAY_BE_TOLD.items():
            if str(error.sqlstate).startswith(state):
                where = "hq" if site == "hq" else "a site"
                return f"refused by {reason} at {where}"
        raise error

    def _rows(self, session: Session, site: str, history: int) -> dict[str, list[Row]]:
        """The rows of a history that users of a site see."""
        parts = [
            sql.SQL("SELECT {}, to_jsonb(one) FROM {} one WHERE h = {}").format(
                sql.Literal(name), sql.Identifier(name), sql.Literal(history)
            )
            for name in sorted(self.readable[site])
        ]
        query = sql.SQL(" UNION ALL ").join(parts)
        found: dict[str, list[Row]] = {}
        for name, row in session.execute(query).fetchall():
            found.setdefault(name, []).append(row)
        for rows in found.values():
            rows.sort(key=str)
        return found
