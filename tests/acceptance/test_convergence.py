"""Random work at a master and two sites, all at once; when it is quiet, all agree.

The master is the oracle: every snapshot equals its defining query, and every
transaction that a site queued has arrived, or is parked, exactly once.
`SNAPTIDE_RANDOM_STEPS` says how many transactions each writer makes, and
`SNAPTIDE_RANDOM_SEED` repeats a run (as far as threads let it).
"""

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import psycopg
import pytest

import deferred
import masters
import snapshots
from deferred.errors import PushInterrupted
from sites import Directory, Site
from snapshots import RefreshReport
from tests import seeds
from tests.fix_sites import log
from tests.linked_table import queued, run
from tests.stories import assert_equal_to_master, column_groups, settle, user

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]

STEPS = int(os.environ.get("SNAPTIDE_RANDOM_STEPS", "60"))
SEED = seeds.seed("SNAPTIDE_RANDOM_SEED")

#: Few keys and few values, so that everybody meets everybody.
KEYS, NAMES = 24, 12
#: Seconds at most between two transactions of a writer.
PAUSE = 0.2
REGIONS = ("jfk", "lga", "elsewhere")

SCHEMA = (
    "CREATE TABLE public.parent (id int PRIMARY KEY, name text UNIQUE, v int, n int)",
    (
        "CREATE TABLE public.child (id int PRIMARY KEY, region text NOT NULL, v int,"
        " parent_id int REFERENCES public.parent ON DELETE CASCADE)"
    ),
    "CREATE TABLE public.receipt (id text PRIMARY KEY, site text NOT NULL)",
    "CREATE TABLE public.arrival (id text NOT NULL)",
    (
        "CREATE FUNCTION public.arrive() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.arrival VALUES (NEW.id); RETURN NULL; END'"
    ),
    (
        "CREATE TRIGGER arrive AFTER INSERT ON public.receipt"
        " FOR EACH ROW EXECUTE FUNCTION public.arrive()"
    ),
    (
        "INSERT INTO public.parent"
        " SELECT i, CASE WHEN i < 9 THEN 'name ' || i END, i, 0"
        " FROM generate_series(1, 20) i"
    ),
    (
        "INSERT INTO public.child"
        " SELECT i, (ARRAY['jfk', 'lga', 'elsewhere'])[i % 3 + 1], i, i % 9 + 1"
        " FROM generate_series(1, 20) i"
    ),
)

#: What a user may be told in a world where others write too.
USERS_OWN = ("23503", "23505", "44000")
#: At the master an apply can be the other side of a deadlock.
AT_MASTER = (*USERS_OWN, "40P01")
#: A push ends for now in a deadlock, and where users keep a row for seconds.
GIVES_WAY = ("40P01", "55P03")


class Writer(threading.Thread):
    """A user who makes small random transactions, and counts what came of them."""

    def __init__(self, site: Site, seed: int, region: str | None) -> None:
        super().__init__(name=f"writer-{site.name}")
        self.site = site
        self.region = region
        self.chance = random.Random(seed)
        self.receipts: set[str] = set()
        self.told: Counter[str] = Counter()
        self.surprise: BaseException | None = None

    def run(self) -> None:
        try:
            for number in range(STEPS):
                self._transaction(number)
                time.sleep(self.chance.random() * PAUSE)
        except BaseException as error:
            self.surprise = error

    def _transaction(self, number: int) -> None:
        receipt = f"{self.site.name}-{number}"
        try:
            with user(self.site) as session:
                for _ in range(self.chance.randint(1, 4)):
                    self._statement(session)
                if self.region:
                    session.execute(
                        "INSERT INTO public.receipt VALUES (%s, %s)",
                        [receipt, self.site.name],
                    )
                if self.chance.random() < 0.1:
                    time.sleep(self.chance.random())
                if self.chance.random() < 0.1:
                    return
                session.commit()
                self.receipts.add(receipt)
        except psycopg.Error as error:
            if error.sqlstate not in (USERS_OWN if self.region else AT_MASTER):
                raise
            self.told[str(error.sqlstate)] += 1

    def _statement(self, session: psycopg.Connection) -> None:
        query, takes = self.chance.choice(STATEMENTS)
        values = {
            "id": self.chance.randint(1, KEYS),
            "other": self.chance.randint(1, KEYS),
            "name": f"name {self.chance.randint(1, NAMES)}",
            "v": self.chance.randint(1, 100),
            "region": self.region or self.chance.choice(REGIONS),
            "parent": self.chance.choice([None, *range(1, KEYS)]),
        }
        if takes == "master" and self.region:
            return
        for part in query.split(";"):
            session.execute(part, values)


STATEMENTS = [
    ("INSERT INTO public.parent VALUES (%(id)s, %(name)s, %(v)s, 0)", ""),
    ("INSERT INTO public.parent VALUES (%(id)s, NULL, %(v)s, 0)", ""),
    ("UPDATE public.parent SET v = %(v)s WHERE id = %(id)s", ""),
    ("UPDATE public.parent SET n = n + 1 WHERE id = %(id)s", ""),
    ("UPDATE public.parent SET n = n + 1 WHERE id %% 5 = 1", ""),
    ("UPDATE public.parent SET name = %(name)s WHERE id = %(id)s", ""),
    (
        (
            "UPDATE public.parent SET name = NULL WHERE name = %(name)s;"
            "UPDATE public.parent SET name = %(name)s WHERE id = %(id)s"
        ),
        "",
    ),
    ("UPDATE public.parent SET id = %(other)s WHERE id = %(id)s", ""),
    ("DELETE FROM public.parent WHERE id = %(id)s", ""),
    (
        (
            "DELETE FROM public.parent WHERE id = %(id)s;"
            "INSERT INTO public.parent VALUES (%(id)s, NULL, %(v)s, 0)"
        ),
        "",
    ),
    ("INSERT INTO public.child VALUES (%(id)s, %(region)s, %(v)s, %(parent)s)", ""),
    ("INSERT INTO public.child VALUES (%(id)s, %(region)s, %(v)s, %(parent)s)", ""),
    ("UPDATE public.child SET v = %(v)s WHERE id = %(id)s", ""),
    ("UPDATE public.child SET parent_id = %(parent)s WHERE id = %(id)s", ""),
    ("UPDATE public.child SET id = %(other)s WHERE id = %(id)s", ""),
    ("UPDATE public.child SET v = v + 1; UPDATE public.child SET v = v - 1", ""),
    ("DELETE FROM public.child WHERE id = %(id)s", ""),
    ("UPDATE public.child SET region = %(region)s WHERE id = %(id)s", "master"),
    ("UPDATE public.child SET region = %(region)s WHERE id %% 4 = 1", "master"),
]


class Again(threading.Thread):
    """Does something again and again until it is told to stop."""

    def __init__(self, name: str, what: Callable[[], object], pause: float) -> None:
        super().__init__(name=name)
        self.what, self.pause = what, pause
        self.over = threading.Event()
        self.times = 0
        self.gave_way: Counter[str] = Counter()
        self.surprise: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.wait(self.pause):
                self._once()
        except BaseException as error:
            self.surprise = error

    def _once(self) -> None:
        try:
            self.what()
            self.times += 1
        except PushInterrupted as error:
            if error.facts["sqlstate"] not in GIVES_WAY:
                raise
            self.gave_way[error.code] += 1


@pytest.fixture
def world(make_sites: Callable[..., Directory]) -> Directory:
    """A master, two sites, and a group of three snapshots at each."""
    directory = make_sites("hq", "jfk", "lga")
    hq = directory["hq"]
    run(hq, *SCHEMA)
    log(hq, "parent", "child", "receipt")
    column_groups(hq, "parent", {"v": "overwrite", "n": "additive"})
    for name in ("jfk", "lga"):
        site = directory[name]
        # On a busy machine a user may wait for a merge that long, which is the one to
        # give way; only a user whose wait has been long is made to by the server.
        run(
            site, f"ALTER DATABASE \"{site.url.database}\" SET deadlock_timeout = '90s'"
        )
        for table, where in (
            ("parent", None),
            ("child", f"region = '{name}'"),
            ("receipt", f"site = '{name}'"),
        ):
            snapshots.create(
                site, table, master="hq", group="all", where=where, updatable=True
            )
        snapshots.refresh(site, "all")
    return directory


def test_everybody_at_once(world: Directory) -> None:
    _say(f"SNAPTIDE_RANDOM_SEED={SEED} SNAPTIDE_RANDOM_STEPS={STEPS}")
    hq, sites = world["hq"], [world["jfk"], world["lga"]]
    writers = [Writer(hq, SEED, None)]
    writers += [Writer(s, SEED + n, s.name) for n, s in enumerate(sites, 1)]
    helpers = _helpers(hq, sites)
    threads: list[Writer | Again] = [*writers, *helpers]
    for thread in threads:
        thread.start()
    for writer in writers:
        writer.join()
    for helper in helpers:
        helper.over.set()
        helper.join()
    for thread in threads:
        if thread.surprise is not None:
            raise thread.surprise
    for writer in writers:
        _say(f"{writer.name}: {len(writer.receipts)} committed, {writer.told}")
    for helper in helpers:
        _say(f"{helper.name}: {helper.times} times, {helper.gave_way}")
    settle(*sites)
    assert_equal_to_master(*sites)
    for site, writer in zip(sites, writers[1:], strict=True):
        _assert_arrived_once(hq, site, writer.receipts)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _helpers(hq: Site, sites: list[Site]) -> list[Again]:
    def purge_all() -> None:
        masters.purge_snapshot_logs(hq)
        for site in sites:
            deferred.purge(site)

    def pull(site: Site) -> RefreshReport:
        return snapshots.refresh(site, "all", allow_mass_delete=True)

    return [
        Again("purge", purge_all, 0.5),
        *(Again(f"refresh-{s.name}", partial(pull, s), 0.05) for s in sites),
        *(Again(f"push-{s.name}", partial(deferred.push, s), 0.1) for s in sites),
    ]


def _assert_arrived_once(hq: Site, site: Site, receipts: set[str]) -> None:
    here = [str(found) for (found,) in run(hq, "SELECT id FROM public.arrival")]
    arrived = [one for one in here if one.startswith(site.name)]
    stands = _parked_receipts(hq, site)
    assert Counter(arrived) + Counter(stands) == Counter(receipts)
    assert queued(site) == 0


def _parked_receipts(hq: Site, site: Site) -> list[str]:
    errors = deferred.list_errors(hq, site.name)
    calls = [c for e in errors for c in deferred.show_error(hq, e.id).calls]
    return [str((c.new or {})["id"]) for c in calls if c.table == "receipt"]
