"""The console's overview of many sites, a tenth of which are away.

All sites are databases of one server on this machine, so what the page takes is what it
takes of the console and of all sites together.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import psutil
import psycopg
from sqlalchemy import URL, text
from starlette.testclient import TestClient

import deferred
from benchmarks.pairs import Result, compared
from benchmarks.push import commit_each, link
from benchmarks.setting import create_orders, directory, tidy
from sites import Directory, Site
from snaptide.web.application import application
from snaptide.web.console import Console
from snaptide.web.questions import PATIENCE

ROUNDS, WARM_UP = 11, 3

#: Seconds between two polls of an open page, as its template has it.
POLL = 10.0

#: A page has room for so many bytes, and takes so many seconds at most.
ROOM, LONGEST = 80_000, 1.0

#: The first page, just after the start, in terms of the patience with a silent site.
FIRST = 1.5

#: Of one core, at a site.
SHARE = 0.01

#: How a page says that it renews itself.
_POLL = {"HX-Request": "true"}

#: Of one console; what the benchmark has open besides is in this database, or says so.
_SESSIONS = (
    "SELECT max(sessions) FROM (SELECT count(*) AS sessions FROM pg_stat_activity"
    " WHERE application_name = 'snaptide' AND datname LIKE 'site%' GROUP BY datname) s"
)

#: Transactions that wait at a site that has long been cut off, and its polls.
QUEUE, POLLS = 50_000, 6

#: Two groups with a hundred refreshes each, three schedules, and a beat that is there.
_KEPT = """
INSERT INTO snaptide.refresh_group (name, master, master_id, refreshed_at)
SELECT 'group' || g, 'hq', gen_random_uuid(), now() FROM generate_series(1, 2) g;
INSERT INTO snaptide.refresh_run
    (refresh_group, outcome, first_at, ended_at, seconds, steps)
SELECT name, 'refreshed', refreshed_at, refreshed_at, 1,
    jsonb_build_object('window', 0.2, 'merge', 0.3)
FROM snaptide.refresh_group, generate_series(1, 100);
INSERT INTO snaptide.refresh_step
SELECT name, step, at_most, 10, 1 FROM snaptide.refresh_group,
    unnest('{push,ask,window,compare,merge}'::text[]) step,
    unnest('{0.1,0.3,1,3}'::float8[]) at_most;
UPDATE snaptide.schedule SET next_at = now() + interval '1 day';
INSERT INTO snaptide.beat VALUES (1, now() + interval '1 day')
"""


def run(sites: int) -> list[Result]:
    """Pages of so many sites: time, size, sessions, and what polls cost a site."""
    away = sites // 10
    names = [f"site{n:03}" for n in range(sites - away)]
    what = f"overview: {sites} sites, {away} of them away"
    options = {"max_connections": f"{2 * sites + 50}"}
    with (
        directory("jfk", *names, prepare=_prepare, **options) as made,
        _away(made, away) as gone,
    ):
        server, up = _server(made), [made[name] for name in names]
        urls = {one.name: one.url for one in up} | gone
        made.close()
        with Directory(urls) as every, _open(every) as client:
            first = _seconds(lambda: client.get("/"))
            for _ in range(WARM_UP):
                client.get("/")
            results = [
                *_pages(what, client, up),
                _first(what, first),
                _sessions(what, client, made),
                _polls(what, client, server, len(up)),
            ]
        return [*results, _long_queue(made, server)]


def _prepare(sites: Directory) -> None:
    """A site whose queue has three transactions, with groups and schedules."""
    jfk = sites["jfk"]
    with jfk.begin() as connection:
        create_orders(connection, 1_000)
    link(sites)
    commit_each(sites, "orders", 3, 3)
    deferred.schedule(jfk, "push", every="10s")
    deferred.schedule(jfk, "purge", every="1h")
    with jfk.begin() as connection:
        for statement in _KEPT.split(";"):
            connection.execute(text(statement))


@contextmanager
def _away(sites: Directory, count: int) -> Iterator[dict[str, URL]]:
    """Addresses of sites: half of them refuse, and half accept and never answer."""
    url = sites["jfk"].url
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1_000)
        ports = (1, silent.getsockname()[1])
        yield {f"away{n:02}": url.set(port=ports[n % 2]) for n in range(count)}


@contextmanager
def _open(sites: Directory) -> Iterator[TestClient]:
    """A console of some sites, asked without a browser."""
    made = application(Console(sites=sites))
    with TestClient(made, base_url="http://localhost") as client:
        yield client


def _pages(what: str, client: TestClient, up: Sequence[Site]) -> list[Result]:
    """Their time, beside a bare question to each site that is up, and their size."""
    took, asked, sizes = [], [], []
    with _asked(up) as ask:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            page = client.get("/")
            seconds = time.perf_counter() - began
            # One that lacks a site that is up has failed, however soon it came.
            failed = page.text.count("state up") < len(up)
            took.append(max(seconds, PATIENCE) if failed else seconds)
            sizes.append(float(len(page.content)))
            asked.append(_seconds(ask))
    bare = "SELECT 1 at each site that is up"
    return [
        _against(what, "a page", took, LONGEST),
        compared(what, "a page", bare, took, asked),
        _against(what, "size of a page", sizes, ROOM, unit="B"),
    ]


@contextmanager
def _asked(sites: Sequence[Site]) -> Iterator[Callable[[], object]]:
    """What asks all sites at once and as briefly as possible, by kept connections."""
    with ExitStack() as stack:
        kept = [
            stack.enter_context(psycopg.connect(one.libpq_uri(), autocommit=True))
            for one in sites
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(kept)))
        yield lambda: list(pool.map(lambda one: one.execute("SELECT 1"), kept))


def _first(what: str, took: float) -> Result:
    """The first page opens all sessions, and finds out who is silent."""
    patience = [PATIENCE]
    name = "the first page of a console"
    other = "its patience with a site"
    return compared(what, name, other, [took], patience, bar=FIRST)


def _sessions(what: str, client: TestClient, sites: Directory) -> Result:
    """The most sessions of the console at a site, with eight people at the overview."""
    with ThreadPoolExecutor(8) as people:
        list(people.map(lambda _: client.get("/"), range(32)))
    with sites["jfk"].session() as connection:
        most = connection.scalar(text(_SESSIONS))
    return _against(what, "sessions at a site", [float(most)], 1, unit="")


def _polls(what: str, client: TestClient, server: psutil.Process, up: int) -> Result:
    """What an open page takes of a core at a site."""
    shares = []
    for _ in range(ROUNDS):
        before = _processor(server)
        for _ in range(4):
            client.get("/", headers=_POLL)
        shares.append((_processor(server) - before) / 4 / up / POLL)
    name = "an open page, of a core at a site"
    return _against(
        what, name, [share * 1e6 for share in shares], SHARE * 1e6, unit="ppm"
    )


def _long_queue(sites: Directory, server: psutil.Process) -> Result:
    """The same where many transactions wait, which each look has to count."""
    commit_each(sites, "orders", QUEUE, 1_000)
    tidy(sites["jfk"], "snaptide.deferred_transaction")
    shares = []
    with Directory({"jfk": sites["jfk"].url}) as one, _open(one) as client:
        client.get("/", headers=_POLL)
        for _ in range(POLLS):
            began, before = time.monotonic(), _processor(server)
            client.get("/", headers=_POLL)
            time.sleep(POLL - (time.monotonic() - began))
            shares.append((_processor(server) - before) / POLL)
    share = sum(shares) / len(shares)
    what = f"overview: a site where {QUEUE:,} transactions wait"
    return _against(
        what,
        "an open page, of a core at a site",
        [share * 1e6],
        SHARE * 1e6,
        unit="ppm",
    )


def _server(sites: Directory) -> psutil.Process:
    """The server's first process, the parent of its sessions."""
    with sites["jfk"].session() as connection:
        session = psutil.Process(connection.scalar(text("SELECT pg_backend_pid()")))
    found = session.parent()
    assert found is not None
    return found


def _processor(server: psutil.Process) -> float:
    """The seconds of processor that a server and its sessions have taken so far."""
    taken = 0.0
    for one in (server, *server.children()):
        with suppress(psutil.NoSuchProcess):
            used = one.cpu_times()
            taken += used.user + used.system
    return taken


def _seconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _against(
    name: str, measured: str, values: Sequence[float], limit: float, unit: str = "s"
) -> Result:
    """The result of values that are held against a fixed one."""
    return compared(
        name,
        measured,
        f"{limit:,.0f} {unit}".strip(),
        values,
        [limit] * len(values),
        bar=1.0,
        unit=unit,
    )
