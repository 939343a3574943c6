"""Users of the oracle: sessions that stay open, and what they are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import psycopg
from psycopg import sql

from tests.oracle.story import Story

#: What a user may be told in a world where others write too: values, checks,
#: constraints, locks, and the refusals of snapshots; that one was dropped.
MAY_BE_TOLD = ("22", "23", "40", "44", "55000", "55006", "55P03", "0A000", "42P01")

Statement = sql.Composed


class User:
    """One session; a statement that fails takes nothing but itself away."""

    def __init__(self, url: str, name: str, isolation: str, story: Story) -> None:
        self.name = name
        self.told: Counter[str] = Counter()
        self._story = story
        self._connection = psycopg.connect(url, application_name="oracle-user")
        # One thread plays everybody: who waits for another waits for nothing.
        self._connection.execute("SET lock_timeout = '30ms'")
        self._connection.execute(f"SET default_transaction_isolation = '{isolation}'")
        self._connection.commit()
        # From here on it is in a transaction, which each statement's block nests in.
        self._connection.execute("SAVEPOINT begun")

    def run(self, statements: Sequence[Statement]) -> bool:
        """Run statements in a savepoint of their own; whether they went through."""
        try:
            with self._connection.transaction():
                for statement in statements:
                    self._story.tell(f"{self.name}: {statement.as_string()}")
                    self._connection.execute(statement)
        except psycopg.Error as error:
            self._accept(error)
            return False
        return True

    def savepoint(self, name: str) -> None:
        """Make a savepoint, to come back to."""
        self._plain(f"SAVEPOINT {name}")

    def back_to(self, name: str) -> None:
        """Undo what was done since a savepoint."""
        self._plain(f"ROLLBACK TO {name}")

    def commit(self) -> bool:
        """Commit, and close the session; whether the commit went through."""
        return self._end("COMMIT")

    def prepare(self, name: str) -> bool:
        """Prepare the transaction, and close the session; whether it is prepared."""
        return self._end(f"PREPARE TRANSACTION '{name}'")

    def _end(self, statement: str) -> bool:
        try:
            self._plain(statement)
        except psycopg.Error as error:
            self._accept(error)
            self._connection.close()
            return False
        self._connection.close()
        return True

    def rollback(self) -> None:
        """Give all of it up."""
        self._story.tell(f"{self.name}: ROLLBACK")
        self._connection.close()

    def _plain(self, statement: str) -> None:
        self._story.tell(f"{self.name}: {statement}")
        self._connection.execute(statement)

    def _accept(self, error: psycopg.Error) -> None:
        state = str(error.sqlstate)
        self._story.tell(f"{self.name}:   is told {state}")
        if not state.startswith(MAY_BE_TOLD):
            raise error
        self.told[state] += 1
