"""Crashes of coordinators, servers and lines while money moves between accounts.

Accounts stand at a site and its master; each transfer changes two of them and notes
itself, at both. The total of all accounts never changes, for no reader at either side;
in the end each transfer that was confirmed is at both sites once, and each other one at
both or at neither.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from random import Random

import psycopg
from sqlalchemy.exc import SQLAlchemyError

import synchronous
from sites.errors import SnaptideError
from tests.campaign import crash
from tests.campaign.bank import Bank, Teller, transfer
from tests.campaign.kinds import ANY_TIME, Crash
from tests.campaign.servers import Servers
from tests.forked import CONTEXT

#: Crashes before the end state is compared.
EPISODE = 20

#: Within so many seconds of a crash nothing may be in doubt any more.
PATIENCE = 180.0

_POINTS = (
    "synchronous.after_apply",
    "synchronous.before_prepare",
    "synchronous.after_prepare",
    "synchronous.before_decision",
    "synchronous.after_decision",
    "synchronous.after_confirm",
    "recovery.before_finish",
    "recovery.before_confirm",
)
#: What is hit, the cheapest most often: a killed server takes seconds to come back.
_VICTIMS = ("process",) * 5 + ("line",) * 3 + ("master", "site")


def points() -> list[str]:
    """Every fault point of the coordinator and of recovery."""
    return list(_POINTS)


def size(number: int) -> int:
    """How many crashes an episode has at most: all have as many."""
    del number
    return EPISODE


def episode(seed: int, number: int, crashes: int) -> Iterator[Crash]:
    """Crash while tellers move money and witnesses count it, then compare."""
    random = Random(f"{seed} {number}")
    bank = _bank()
    with bank.open(number):
        for count in range(min(crashes, EPISODE)):
            nth = (number - 1) * EPISODE + count
            yield _crash(bank, _point(nth), random.choice(_VICTIMS), random)
    bank.assert_balanced()


@cache
def _bank() -> Bank:
    """The bank of this process; it goes when the process ends."""
    servers = Servers("hq", "jfk")
    servers.prepare()
    bank = Bank(servers)
    atexit.register(bank.close)
    return bank


def _point(nth: int) -> str:
    places = (*_POINTS, ANY_TIME, ANY_TIME)
    return places[nth % len(places)]


def _crash(bank: Bank, point: str, victim: str, random: Random) -> Crash:
    verb = "recover" if point.startswith("recovery") else "transfer"
    if verb == "recover":
        _abandon(bank, random)
    began = time.monotonic()
    if victim == "process":
        _kill_process(bank, point, verb, random)
    else:
        _kill_beside(bank, point, victim, verb, random)
    bank.servers.start()
    _recover(bank)
    return Crash(
        point=point,
        victim=victim,
        verb=verb,
        seconds=round(time.monotonic() - began, 2),
    )


def _abandon(bank: Bank, random: Random) -> None:
    """Leave something in doubt, for a recovery that is to be hit."""
    point = random.choice(("synchronous.after_prepare", "synchronous.after_decision"))
    _kill_process(bank, point, "transfer", random)


def _kill_process(bank: Bank, point: str, verb: str, random: Random) -> None:
    """Run the verb in a process of its own, that dies at the point or at some time."""
    number = random.randrange(10**12)
    fault = "" if point == ANY_TIME else f"{point}:kill:{random.randint(1, 3)}"
    if verb == "recover":
        fault = f"{point}:kill"
    process = CONTEXT.Process(
        target=_victim, args=(bank.urls, verb, number, fault), daemon=True
    )
    process.start()
    if not fault:
        time.sleep(random.uniform(0.0, 0.4))
        process.kill()
    process.join(PATIENCE)
    assert process.exitcode == -9, f"{point} was not reached: {process.exitcode}"


def _victim(urls: Mapping[str, str], verb: str, number: int, fault: str) -> None:
    """What is killed: moves money until it is, or recovers once."""
    os.environ["SNAPTIDE_FAULT"] = fault
    bank = Teller.of(urls, f"victim-{number}")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(SnaptideError, SQLAlchemyError, psycopg.Error):
            if verb == "recover":
                for site in bank.sites.values():
                    synchronous.recover(site)
            else:
                bank.work()


def _kill_beside(
    bank: Bank, point: str, victim: str, verb: str, random: Random
) -> None:
    """Run the verb in this process, and kill what it works with."""
    action = _action(bank, victim)
    run = _recover_far if verb == "recover" else _transfer_far
    if point == ANY_TIME:
        timer = threading.Timer(random.uniform(0, 0.1), action)
        timer.start()
        while timer.is_alive():
            run(bank)
        timer.join()
        return
    with crash.at(point, action, threading.get_ident()) as reached:
        run(bank)
        deadline = time.monotonic() + PATIENCE
        while not reached and time.monotonic() < deadline:
            if verb == "recover":
                _abandon(bank, random)
            run(bank)
    assert reached, f"{point} was not reached"


def _action(bank: Bank, victim: str) -> Callable[[], object]:
    if victim == "master":
        return bank.servers.postgres["hq"].kill
    return bank.servers.postgres["jfk"].kill if victim == "site" else bank.lines.cut


def _transfer_far(bank: Bank) -> None:
    with suppress(SnaptideError, SQLAlchemyError, psycopg.Error):
        bank.far_teller.work()


def _recover_far(bank: Bank) -> None:
    for site in bank.far.values():
        with suppress(SnaptideError, SQLAlchemyError, psycopg.Error):
            synchronous.recover(site)


def _recover(bank: Bank) -> None:
    """Recover, as beat does, until nothing is in doubt and no lock is held."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            for site in bank.sites.values():
                synchronous.recover(site)
            transfer(bank.sites, bank.next_name(), lock_timeout=2.0, everything=True)
        except (SnaptideError, SQLAlchemyError, psycopg.Error):
            assert time.monotonic() < deadline, bank.who_holds_locks()
            time.sleep(0.1)
        else:
            return
