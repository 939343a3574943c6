"""The two sites of a campaign, and the question that each episode ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import masters
import snapshots
from masters import rules
from sites import Directory, Site
from snaptide.embedded import PostgresServer
from tests.campaign.servers import TEMPLATE, Lines, Servers
from tests.campaign.writers import ACCOUNTS, PAUSE, Writer
from tests.fix_sites import log, name_site
from tests.linked_table import parked, run
from tests.stories import assert_equal_to_master, settle

TABLES = (
    "CREATE TABLE public.account (id int PRIMARY KEY, balance bigint NOT NULL)",
    """
    CREATE TABLE public.booking (number text PRIMARY KEY,
    account int NOT NULL REFERENCES public.account, amount int NOT NULL)
    """,
    "CREATE TABLE public.note (id int PRIMARY KEY, words text UNIQUE)",
    "CREATE TABLE public.dispute (id int PRIMARY KEY, words text)",
    "CREATE TABLE public.spare (id int PRIMARY KEY, words text)",
    f"INSERT INTO public.account SELECT i, 0 FROM generate_series(0, {ACCOUNTS - 1}) i",
    "INSERT INTO public.note SELECT i, 'note ' || i FROM generate_series(1, 20) i",
    "INSERT INTO public.dispute VALUES (1, 'first')",
    "INSERT INTO public.spare VALUES (1, 'first')",
)

#: What every site has, for the checks below.
LEFT_OVER = """
SELECT relname FROM pg_class
WHERE relnamespace = 'snaptide'::regnamespace
  AND (relname LIKE 'stage$%' OR relname LIKE 'keys$%')
UNION ALL SELECT 'load_range' FROM snaptide.load_range
UNION ALL SELECT gid FROM pg_prepared_xacts WHERE database = current_database()
"""

#: Seconds within which a user books whose server is there.
MOMENT = 0.3


class World:
    """Tables at hq, updatable snapshots of them at jfk, and users at both."""

    #: by database, the server where it is
    databases: ClassVar[Mapping[str, str]] = {"hq": "hq", "jfk": "jfk"}
    #: those that are made by what is interrupted
    later: ClassVar[Mapping[str, str]] = {"fresh": "jfk"}
    #: where users write
    users_at: ClassVar[Sequence[str]] = ("hq", "jfk")
    #: seconds between two bookings of a user
    pause: ClassVar[float] = PAUSE

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._urls = {
            name: self.server(home).create_database(name, template=TEMPLATE)
            for name, home in self.databases.items()
        }
        self._urls |= {n: self.server(home).url(n) for n, home in self.later.items()}
        self.sites = Directory(self._urls)
        self.lines = Lines(self._urls)
        #: the same sites, with a proxy before each
        self.far = Directory(self.lines.urls)
        self._build()
        self._writers: list[Writer] = []
        #: those who write now
        self._present: list[Writer] = []

    @property
    def hq(self) -> Site:
        """The master."""
        return self.sites["hq"]

    @property
    def jfk(self) -> Site:
        """The site of the snapshots."""
        return self.sites["jfk"]

    @property
    def urls(self) -> dict[str, str]:
        """Where the sites are, for other processes."""
        return self._urls

    def server(self, name: str) -> PostgresServer:
        """One of the servers; the first two are master and site, too."""
        return self.servers.postgres[{"master": "hq", "site": "jfk"}.get(name, name)]

    def close(self) -> None:
        """Let all lines go, and the servers."""
        self.far.close()
        self.lines.close()
        self.sites.close()
        self.servers.stop()

    def make_fresh(self) -> None:
        """Have a new, empty database at the site's server."""
        for directory in (self.sites, self.far):
            directory["fresh"].close()
        self.server("jfk").drop_database("fresh")
        self.server("jfk").create_database("fresh")

    @contextmanager
    def users(self, number: int) -> Iterator[None]:
        """Have users write at all sites while the block runs.

        Parameters:
            number: tells their bookings from those of other users.
        """
        writers = [
            Writer(f"{name}-{number}", self._urls[name], self.pause)
            for name in self.users_at
        ]
        self._writers += writers
        self._present = writers
        for writer in writers:
            writer.start()
        try:
            yield
        finally:
            self._present = []
            for writer in writers:
                writer.stop()

    def hurry(self) -> None:
        """Have each user book now, who can: there is something to push and refresh."""
        for writer in self._present:
            writer.hurry()
        for writer in self._present:
            writer.booked.wait(MOMENT)

    def assert_as_without_crashes(self) -> None:
        """Let everything settle, and see that each booking counts once everywhere."""
        settle(self.jfk)
        self.assert_settled()

    def assert_settled(self) -> None:
        """See that nothing is missing, twice, waiting or left over."""
        for name in self.databases:
            self._assert_each_once(self.sites[name])
        assert_equal_to_master(self.jfk)
        assert_proven(self.jfk)
        registered = run(self.hq, "SELECT snapshot FROM snaptide.registered_snapshot")
        kept = {(one.name,) for one in snapshots.list_snapshots(self.jfk)}
        assert set(registered) == kept

    def _assert_each_once(self, site: Site) -> None:
        """See that a site has each confirmed booking once, and nothing left over."""
        tried = set().union(*(w.tried for w in self._writers))
        confirmed = set().union(*(w.confirmed for w in self._writers))
        there = {str(n) for (n,) in run(site, "SELECT number FROM public.booking")}
        assert confirmed <= there, (site.name, sorted(confirmed - there))
        assert there <= tried, (site.name, sorted(there - tried))
        assert run(site, _WRONG_BALANCE) == [], site.name
        assert run(site, LEFT_OVER) == [], site.name
        assert parked(site) == [], site.name

    def _build(self) -> None:
        for site in (self.hq, self.jfk):
            name_site(site)
        run(self.hq, *TABLES)
        prepare(self.hq)
        for table, group in (
            ("account", "books"),
            ("booking", "books"),
            ("note", "notes"),
            ("dispute", "disputes"),
        ):
            snapshots.create(
                self.jfk, table, master="hq", group=group, updatable=table != "note"
            )
        for group in ("books", "notes", "disputes"):
            snapshots.refresh(self.jfk, group, push_deferred_rpc=False)


def assert_proven(site: Site) -> None:
    """See that a check of a site proves its snapshots equal to their masters."""
    report = snapshots.check(site)
    assert report.equal, report


def prepare(master: Site) -> None:
    """Have snapshot logs, and balances that are added up."""
    log(master, "account", "booking", "note", "dispute")
    rules.set_column_group(master, "account", "balance", ["balance"])
    masters.add_update_resolution(master, "account", "balance", "additive")


_WRONG_BALANCE = """
SELECT a.id FROM public.account a
WHERE a.balance <> COALESCE(
    (SELECT sum(b.amount) FROM public.booking b WHERE b.account = a.id), 0)
"""
