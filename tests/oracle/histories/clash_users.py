"""Users of a world of clashes: what they book must count once, everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

import synchronous
from sites import Directory
from sites.errors import SnaptideError
from tests.oracle.histories.clash_verbs import SITE
from tests.oracle.story import Story

ACCOUNTS = 8

#: A balance that masters refuse, and the site does not.
NEVER = 123_456_789
TABLES = ("account", "booking", "note")
DDL = (
    f"CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL CHECK (n <> {NEVER}))",
    (
        "CREATE TABLE booking (id text PRIMARY KEY, account int NOT NULL"
        " REFERENCES account, amount int NOT NULL)"
    ),
    (
        "CREATE TABLE note (id text PRIMARY KEY, kind text NOT NULL, words text,"
        " more text)"
    ),
)

_WRONG = (
    "SELECT a.id, a.n FROM account a WHERE a.n <> COALESCE("
    "(SELECT sum(b.amount) FROM booking b WHERE b.account = a.id), 0)"
)


@dataclass
class Tellers:
    """Users at all sites, and what they know of their transactions."""

    sites: Directory
    urls: Mapping[str, str]
    story: Story
    #: keys of rows by table: what may be there, and what must
    tried: dict[str, set[str]] = field(default_factory=dict)
    confirmed: dict[str, set[str]] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        for table in TABLES[1:]:
            self.tried[table], self.confirmed[table] = set(), set()

    def write(self, site: str, chance: Random) -> None:
        """A transaction of a user, by whichever way the site takes it."""
        self._made += 1
        key, account = f"{site}-{self._made}", chance.randrange(ACCOUNTS)
        amount, kind = chance.randint(-9, 9), "a" if site == SITE else None
        kind = kind or chance.choice("abc")
        mine = sorted(k for k in self.confirmed["note"] if k.startswith(site))
        table = chance.choice(TABLES[1:])
        statements = {
            "booking": [
                f"INSERT INTO booking VALUES ('{key}', {account}, {amount})",
                f"UPDATE account SET n = n + {amount} WHERE id = {account}",
            ],
            "note": [
                f"INSERT INTO note (id, kind, words) VALUES ('{key}', '{kind}', 'new')",
                *(
                    f"UPDATE note SET words = '{key}' WHERE id = '{one}'"
                    for one in mine[-1:]
                ),
            ],
        }[table]
        self.tried[table].add(key)
        said = self._plainly(site, statements)
        if site == SITE and said is not None and said.sqlstate == "55000":
            said = self._together(site, statements)
        self.story.tell(f"  {site}: {key} {'is told ' + repr(said) if said else ''}")
        if said is None:
            self.confirmed[table].add(key)

    def _plainly(self, site: str, statements: Sequence[str]) -> psycopg.Error | None:
        try:
            with psycopg.connect(self.urls[site]) as session:
                session.execute("SET lock_timeout = '200ms'")
                for statement in statements:
                    session.execute(statement.encode())
        except psycopg.Error as error:
            return error
        return None

    def _together(self, site: str, statements: Sequence[str]) -> psycopg.Error | None:
        try:
            with synchronous.begin(
                self.sites[site], timeout=3, lock_timeout=0.2
            ) as connection:
                if self._made % 3 == 0:
                    self._try_in_vain(connection)
                for statement in statements:
                    connection.execute(text(statement))
        except (SnaptideError, SQLAlchemyError) as error:
            return psycopg.Error(type(error).__name__, str(error)[:200])
        return None

    def _try_in_vain(self, connection: Connection) -> None:
        """Have the master refuse a change, and go on from the savepoint before it."""
        refused = f"UPDATE account SET n = {NEVER} WHERE id = 0"
        with suppress(SnaptideError, SQLAlchemyError), connection.begin_nested():
            connection.execute(text(refused))

    def wrong(self, site: str) -> list[str]:
        """What a site has that it may not have, and what it lacks."""
        found = []
        with psycopg.connect(self.urls[site]) as session:
            for table in TABLES[1:]:
                with suppress(psycopg.errors.UndefinedTable):
                    rows = session.execute(f"SELECT id FROM {table}".encode())
                    there = {str(i) for (i,) in rows}
                    # Of notes, a site may have some.
                    some = site == SITE and table == "note"
                    must = set() if some else self.confirmed[table]
                    if lost := must - there:
                        found.append(f"{site} lacks {sorted(lost)} of {table}")
                    if more := there - self.tried[table]:
                        found.append(f"{site} has {sorted(more)} of {table}")
            if wrong := session.execute(_WRONG.encode()).fetchall():
                found.append(f"{site} has wrong balances {wrong}")
        return found
