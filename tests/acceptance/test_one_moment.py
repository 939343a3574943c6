"""A refresh group shows one moment of its master, whoever looks at it and when."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import snapshots
from sites import Directory, Site
from sites.sessions.exchange import Later
from sites.transfer.transport import ask
from snapshots import keys
from snapshots.differences import comparison
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, user

pytestmark = pytest.mark.usefixtures("spark")

ACCOUNTS, EACH, MONEY = 20, 50, 2000

TOTAL = (
    "SELECT (SELECT sum(money) FROM public.savings)"
    " + (SELECT sum(money) FROM public.cash)"
)


@pytest.fixture
def bank(sites: Directory) -> Directory:
    """Two tables of one group, with 2000 between them at every moment."""
    hq, jfk = sites["hq"], sites["jfk"]
    for table in ("savings", "cash"):
        run(
            hq,
            f"CREATE TABLE public.{table} (id int PRIMARY KEY, money int NOT NULL)",
            f"INSERT INTO public.{table}"
            f" SELECT i, {EACH} FROM generate_series(1, {ACCOUNTS}) i",
        )
        log(hq, table)
        snapshots.create(jfk, table, master="hq", group="bank")
    return sites


MOVES = (
    "UPDATE public.savings SET money = money - %(sum)s WHERE id = %(id)s",
    "UPDATE public.cash SET money = money + %(sum)s WHERE id = %(other)s",
)


class Teller(threading.Thread):
    """Moves money between the two tables all the time."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(name="teller")
        self.site, self.chance = site, random.Random(seed)
        self.over = threading.Event()
        self.moves = 0
        self.surprise: BaseException | None = None

    def run(self) -> None:
        try:
            with user(self.site) as session:
                while not self.over.wait(0.005):
                    values = {
                        "sum": self.chance.randint(-50, 50),
                        "id": self.chance.randint(1, ACCOUNTS),
                        "other": self.chance.randint(1, ACCOUNTS),
                    }
                    for statement in MOVES:
                        session.execute(statement, values)
                    session.commit()
                    self.moves += 1
        except BaseException as error:
            self.surprise = error


class Auditor(threading.Thread):
    """Counts the money at a site again and again, in one transaction each time."""

    def __init__(self, site: Site) -> None:
        super().__init__(name="auditor")
        self.site = site
        self.over = threading.Event()
        self.seen: list[int] = []
        self.surprise: BaseException | None = None

    def run(self) -> None:
        try:
            with user(self.site) as session:
                while not self.over.wait(0.002):
                    session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    for (total,) in session.execute(TOTAL).fetchall():
                        self.seen.append(int(total))
                    session.commit()
        except BaseException as error:
            self.surprise = error


@contextmanager
def at_work(*threads: Teller | Auditor) -> Iterator[None]:
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.over.set()
            thread.join()
    for thread in threads:
        if thread.surprise is not None:
            raise thread.surprise


def test_money_is_never_seen_half_way(bank: Directory) -> None:
    hq, jfk = bank["hq"], bank["jfk"]
    with at_work(Teller(hq, 1)) as _:
        # Loaded by executors, each with a connection of its own: one moment too.
        refresh(jfk, "bank")
        assert run(jfk, TOTAL) == [(MONEY,)]
    teller, auditor = Teller(hq, 2), Auditor(jfk)
    with at_work(teller, auditor):
        for method in ("", "ff", "cc", "fc", "cf", ""):
            moved = teller.moves
            while teller.moves < moved + 5:
                threading.Event().wait(0.01)
            refresh(jfk, "bank", method=method)
            assert run(jfk, TOTAL) == [(MONEY,)]
    assert set(auditor.seen) == {MONEY}
    assert len(auditor.seen) > 10
    refresh(jfk, "bank")
    assert_equal_to_master(jfk)


def test_money_moves_between_window_and_members(
    bank: Directory, moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = bank["hq"], bank["jfk"]
    refresh(jfk, "bank")

    def move() -> None:
        run(
            hq,
            "UPDATE public.savings SET money = money - 7 WHERE id = 1",
            "UPDATE public.cash SET money = money + 7 WHERE id = 1",
        )

    moved = 0

    def move_and_ask(*args: Any) -> list[Later]:
        nonlocal moved
        moved += 1
        move()
        return ask(*args)

    monkeypatch.setattr(keys, "ask", move_and_ask)
    monkeypatch.setattr(comparison, "ask", move_and_ask)
    for point in ("refresh.after_window", "refresh.after_stage"):
        move()
        moments.at(point, move)
        refresh(jfk, "bank")
        assert run(jfk, TOTAL) == [(MONEY,)]
    monkeypatch.undo()
    assert moved > 4
    refresh(jfk, "bank")
    assert_equal_to_master(jfk)


def test_member_that_joins_later_comes_to_the_moment_of_all(bank: Directory) -> None:
    hq, jfk = bank["hq"], bank["jfk"]
    refresh(jfk, "bank")
    run(
        hq,
        "CREATE TABLE public.wallet (id int PRIMARY KEY, money int NOT NULL)",
        "INSERT INTO public.wallet SELECT 1, money FROM public.cash WHERE id = 1",
        "UPDATE public.cash SET money = 0 WHERE id = 1",
    )
    log(hq, "wallet")
    snapshots.create(jfk, "wallet", master="hq", group="bank")
    with at_work(Teller(hq, 3)):
        report = refresh(jfk, "bank")
        assert report["wallet"].method == "load"
        total = f"{TOTAL} + (SELECT sum(money) FROM public.wallet)"
        assert run(jfk, total) == [(MONEY,)]
