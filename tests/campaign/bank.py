"""A bank at a site and its master: who moves money, who counts it, what must hold."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from random import Random

import psycopg
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

import synchronous
from sites import Directory
from sites.errors import SnaptideError
from tests.campaign.servers import TEMPLATE, Lines, Servers
from tests.campaign.world import assert_proven
from tests.coordinated import left_over
from tests.fix_sites import name_site
from tests.linked_table import link, rows, run, run_everywhere

ACCOUNTS = 16
START = 1000
#: Who moves money all the while, beside whoever is killed.
CLERKS = 2

_MOVE = text("UPDATE account SET balance = balance + :amount WHERE id = :id")
_NOTE = text("INSERT INTO transfer VALUES (:name, :giver, :taker, :amount)")


def transfer(
    sites: Mapping[str, object] | Directory,
    name: str,
    *,
    amount: int = 1,
    giver: int = 0,
    taker: int = 1,
    lock_timeout: float = 5.0,
    everything: bool = False,
) -> None:
    """Move money between two accounts, at site and master together.

    Parameters:
        everything: touch all accounts, to see that none of them is locked.
    """
    ends = [(giver, -amount), (taker, amount)]
    if everything:
        ends += [(number, 0) for number in range(ACCOUNTS)]
    with synchronous.begin(
        sites["jfk"],  # type: ignore[arg-type]
        timeout=5,
        lock_timeout=lock_timeout,
        idle_timeout=10,
    ) as connection:
        for number, change in sorted(ends):
            connection.execute(_MOVE, {"amount": change, "id": number})
        note = {"name": name, "giver": giver, "taker": taker, "amount": amount}
        connection.execute(_NOTE, note)


class Teller:
    """Moves random amounts, and remembers what was confirmed."""

    def __init__(self, sites: Directory, name: str) -> None:
        self.sites = sites
        self.tried: set[str] = set()
        self.confirmed: set[str] = set()
        self._name = name
        self._random = Random(name)
        self._numbers = itertools.count()

    @classmethod
    def of(cls, urls: Mapping[str, str], name: str) -> Teller:
        """A teller in a process of its own."""
        return cls(Directory(urls), name)

    def work(self) -> None:
        """Make one transfer; raises what it raises."""
        name = f"{self._name}-{next(self._numbers)}"
        giver, taker = self._random.sample(range(ACCOUNTS), 2)
        self.tried.add(name)
        transfer(
            self.sites,
            name,
            amount=self._random.randint(1, 9),
            giver=giver,
            taker=taker,
            lock_timeout=0.5,
        )
        self.confirmed.add(name)


class Clerk(threading.Thread):
    """A teller who works until told to stop, whatever breaks."""

    def __init__(self, teller: Teller) -> None:
        super().__init__(daemon=True)
        self._teller = teller
        self._stopping = threading.Event()

    def run(self) -> None:
        """Make transfers, a few in a second."""
        while not self._stopping.wait(0.1):
            with suppress(SnaptideError, SQLAlchemyError, psycopg.Error):
                self._teller.work()

    def stop(self) -> None:
        """Stop after the transfer of this moment."""
        self._stopping.set()
        self.join(timeout=180)
        assert not self.is_alive()


class Witness(threading.Thread):
    """Counts the money of one site, again and again."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.wrong: list[object] = []
        self.looks = 0
        self._url = url
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look until told to stop; a server that is away is waited for."""
        while not self._stopping.wait(0.05):
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self._url, connect_timeout=30) as session,
            ):
                while not self._stopping.wait(0.05):
                    self._look(session)
                    session.rollback()

    def stop(self) -> None:
        """Stop after this look."""
        self._stopping.set()
        self.join(timeout=180)
        assert not self.is_alive()

    def _look(self, session: psycopg.Connection) -> None:
        row = session.execute("SELECT sum(balance) FROM public.account").fetchone()
        self.looks += 1
        if row != (ACCOUNTS * START,):
            self.wrong.append(row)


class Bank:
    """Accounts and transfers at hq and jfk, the latter propagated synchronously."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.urls = {
            name: server.create_database(name, template=TEMPLATE)
            for name, server in servers.postgres.items()
        }
        self.sites = Directory(self.urls)
        self.lines = Lines(self.urls)
        #: the same sites, with a proxy before each
        self.far = Directory(self.lines.urls)
        self.far_teller = Teller(self.far, "far")
        self._tellers = [self.far_teller]
        self._numbers = itertools.count()
        self._build()

    def next_name(self) -> str:
        """A name for a transfer of the campaign's own."""
        return f"own-{next(self._numbers)}"

    @contextmanager
    def open(self, number: int) -> Iterator[None]:
        """Have clerks move money and two witnesses count it while the block runs."""
        tellers = [Teller(self.sites, f"clerk-{number}-{n}") for n in range(CLERKS)]
        self._tellers += tellers
        witnesses = [Witness(url) for url in self.urls.values()]
        people: list[Clerk | Witness] = [*map(Clerk, tellers), *witnesses]
        for one in people:
            one.start()
        try:
            yield
        finally:
            for one in people:
                one.stop()
        assert [witness.wrong for witness in witnesses] == [[], []]
        assert all(witness.looks for witness in witnesses)

    def who_holds_locks(self) -> list[list[tuple[object, ...]]]:
        """Open and prepared transactions, where something does not go on."""
        return [
            [*run(site, _OPEN), *run(site, "SELECT * FROM pg_prepared_xacts")]
            for site in self.sites.values()
        ]

    def assert_balanced(self) -> None:
        """See that both sites hold the same, and each confirmed transfer once."""
        for site in self.sites.values():
            synchronous.recover(site)
        tables = ("account", "transfer")
        here, there = ([rows(site, t) for t in tables] for site in self.sites.values())
        assert here == there
        assert_proven(self.sites["jfk"])
        noted = {name for name, *_ in here[1]}
        for teller in self._tellers:
            assert teller.confirmed <= noted, sorted(teller.confirmed - noted)
        assert run(self.sites["hq"], _WRONG) == []
        assert left_over(self.sites) == {}

    def close(self) -> None:
        """Let all lines go, and the servers."""
        self.far.close()
        self.lines.close()
        self.sites.close()
        self.servers.stop()

    def _build(self) -> None:
        for site in self.sites.values():
            name_site(site)
        link(self.sites, "account", "id int PRIMARY KEY, balance int", synchronous=True)
        columns = "name text PRIMARY KEY, giver int, taker int, amount int"
        link(self.sites, "transfer", columns, synchronous=True)
        numbers = f"generate_series(0, {ACCOUNTS - 1})"
        run_everywhere(
            self.sites, f"INSERT INTO account SELECT i, {START} FROM {numbers} i"
        )


_OPEN = """
SELECT pid, application_name, state, wait_event, xact_start, state_change, query,
 pg_blocking_pids(pid)
FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()
"""

_WRONG = f"""
SELECT id FROM account a WHERE balance <> {START}
 + (SELECT COALESCE(sum(amount), 0) FROM transfer WHERE taker = a.id)
 - (SELECT COALESCE(sum(amount), 0) FROM transfer WHERE giver = a.id)
"""
