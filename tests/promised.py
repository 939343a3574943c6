"""Many sites with contracts, on a server that keeps the time of each commit."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import deferred
import masters
import snapshots
from sites import Directory, Site
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_db import QUIET_SETTINGS, new_folder
from tests.fix_sites import log, name_site
from tests.granted import as_login, login
from tests.linked_table import application, run
from tests.promised_records import AT_MASTER, AT_SITE
from tests.stories import refresh

TEMPLATE = "template_site"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What one site is promised, and what is done to keep it."""

    site: str
    #: seconds within which a change is to be visible
    within: int
    #: seconds between two refreshes
    every: int
    #: seconds within which a change of the site is to be answered; None if it is
    #: promised nothing
    answered: int | None = None
    #: its rows are granted to it, and it connects to the master by a login of its own
    granted: bool = False
    updatable: bool = True

    @property
    def table(self) -> str:
        """The site's own table at the master, and its snapshot."""
        return f"t_{self.site}"


def promises(count: int, chance: Random) -> list[Promise]:
    """Some that schedules keep while all is well, and some that they cannot keep.

    Rows are granted to the last two: to one that only reads, and to one that pushes.
    What is promised to these cannot be kept: they are too few to leave it to chance.
    """
    usual = [
        Promise(
            site=f"s{number:02}",
            within=chance.choice((8, 12, 16, 24)),
            answered=chance.choice((4, 8, 16)),
            every=chance.choice((5, 10, 20, 30)),
        )
        for number in range(1, count - 1)
    ]
    reader, pusher = f"s{count - 1:02}", f"s{count:02}"
    return [
        *usual,
        Promise(site=reader, within=8, every=20, granted=True, updatable=False),
        Promise(site=pusher, within=8, answered=4, every=40, granted=True),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    """All of them as an operator reaches them, and as their workers do."""

    all: Directory
    #: those of one worker each: the ordinary ones together, each granted one alone
    apart: Sequence[Directory]


@contextmanager
def on_a_server(
    version: int, promised: Sequence[Promise], **settings: str
) -> Iterator[Sites]:
    """A master with a table for each site, and sites that show them, by contract.

    Their server goes with the block.
    """
    folder = new_folder("snaptide-promised-")
    settings = {**QUIET_SETTINGS, "track_commit_timestamp": "on", **settings}
    server = PostgresServer(folder, version, settings=settings)
    try:
        server.start()
        with _make_sites(server, promised) as made:
            yield made
    finally:
        server.stop()
        shutil.rmtree(folder)


@contextmanager
def _make_sites(server: PostgresServer, promised: Sequence[Promise]) -> Iterator[Sites]:
    with Directory({"template": server.create_database(TEMPLATE)}) as template:
        migrate.upgrade(template["template"])
    names = ["hq", *(one.site for one in promised)]
    urls = {name: server.create_database(name, template=TEMPLATE) for name in names}
    with ExitStack() as opened:
        made = opened.enter_context(Directory(urls))
        for site in made.values():
            name_site(site)
            run(site, *(AT_MASTER if site.name == "hq" else AT_SITE))
        usual = {one.site for one in promised if not one.granted}
        few = {name: url for name, url in urls.items() if name in {"hq", *usual}}
        apart = [opened.enter_context(Directory(few))]
        for one in promised:
            at = apart[0]
            if one.granted:
                at = opened.enter_context(_granted(server, made, one))
                apart.append(at)
            _promise(made, at[one.site], one)
        yield Sites(all=made, apart=apart)


@contextmanager
def _granted(
    server: PostgresServer, made: Directory, one: Promise
) -> Iterator[Directory]:
    """Make a site's table, and grant it to a login; the site, and hq as this login."""
    hq = made["hq"]
    _create(hq, one)
    with login(server, hq) as name:
        if one.updatable:
            run(hq, f"GRANT TEMPORARY ON DATABASE hq TO {name}")
        masters.create_publication(hq, one.site, [one.table])
        masters.grant(hq, one.site, one.site, login=name, updatable=one.updatable)
        with as_login(made, name, one.site) as directory:
            yield directory


def _create(hq: Site, one: Promise) -> None:
    run(hq, f"CREATE TABLE public.{one.table} (id int PRIMARY KEY)")
    log(hq, one.table)


def _promise(made: Directory, site: Site, one: Promise) -> None:
    """Take a snapshot as the site does, and promise as its operator does."""
    if not one.granted:
        _create(made["hq"], one)
    snapshots.create(site, one.table, master="hq", group="g", updatable=one.updatable)
    refresh(site, "g")
    answered = None if one.answered is None else timedelta(seconds=one.answered)
    snapshots.set_contract(
        made[one.site],
        "g",
        visible_within=timedelta(seconds=one.within),
        answered_within=answered,
    )
    deferred.schedule(site, "refresh", "g", every=f"{one.every}s")


class Users:
    """They write at the master and at the sites."""

    def __init__(
        self, sites: Directory, promised: Sequence[Promise], seed: int
    ) -> None:
        #: transactions at the master, by the site that is to show them
        self.xids: Mapping[str, list[str]] = {one.site: [] for one in promised}
        self._sites = sites
        self._promised = promised
        self._chance = Random(seed)
        self._over = threading.Event()
        self._failed: list[BaseException] = []

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have them work while the block runs."""
        thread = threading.Thread(target=self._do, args=(self._write,))
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        assert not self._failed, self._failed

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._failed.append(error)

    def _write(self) -> None:
        """Change a table of the master after the other, and now and then a site's."""
        own = 0
        with application(self._sites["hq"]) as master:
            master.autocommit = True
            while not self._over.wait(0.1):
                one = self._chance.choice(self._promised)
                xids = self.xids[one.site]
                insert = (
                    f"INSERT INTO public.{one.table} VALUES ({len(xids) + 1})"
                    " RETURNING pg_current_xact_id()::text"
                )
                [(xid,)] = master.execute(insert.encode()).fetchall()
                xids.append(str(xid))
                if one.updatable and (one.granted or self._chance.random() < 0.2):
                    own += 1
                    insert = f"INSERT INTO public.{one.table} VALUES ({-own})"
                    run(self._sites[one.site], insert)
