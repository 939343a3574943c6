"""What happens at one master of a soak: users change rows, pushes carry them on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from threading import Barrier
from typing import Protocol

import deferred
from deferred.pushing.push import destinations
from sites import Directory, Site
from tests.linked_table import run
from tests.soak.group import NAMES

#: Rows that a transaction changes.
ROWS = 10
#: Rows that the users of one master come back to, again and again.
KEPT = 2000
#: How long one destination is pushed to while others wait, in seconds: under load a
#: push that may go on finds new work for ever.
TURN = 0.5
#: What is delivered is purged after so many rounds of pushes.
PURGED = 20


class Flag(Protocol):
    """Set when work is to end; of threads or of processes."""

    def is_set(self) -> bool:
        """Whether it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much the users of one master do."""

    #: transactions a second; None is as fast as they can
    rate: float | None = None
    #: end after so many; None is when the flag is set
    transactions: int | None = None


def come(all_here: Barrier, patience: float) -> None:
    """Wait until all processes of a soak are there, which takes them a while."""
    all_here.wait(timeout=patience)


def write(urls: Mapping[str, str], name: str, load: Load, over: Flag) -> int:
    """Be the users of one master; says how many transactions they have committed."""
    directory = Directory(urls)
    began, made = time.monotonic(), 0
    try:
        while made != load.transactions and not over.is_set():
            _transaction(directory[name], made)
            made += 1
            if load.rate is not None:
                due = began + made / load.rate
                time.sleep(max(due - time.monotonic(), 0))
    finally:
        directory.close()
    return made


def _transaction(site: Site, number: int) -> None:
    """Change rows that nobody else does; each counts how often it was changed."""
    deletes = number % 16 == 15  # what the one before has written
    first = (number - deletes) * ROWS % KEPT
    keys = f"generate_series({first}, {first + ROWS - 1}) k"
    mine = f"k * {len(NAMES)} + {NAMES.index(site.name)}"
    if deletes:
        run(site, f"DELETE FROM counts WHERE id IN (SELECT {mine} FROM {keys})")
        return
    run(
        site,
        f"INSERT INTO counts SELECT {mine}, 1, 'row ' || k FROM {keys}"
        " ON CONFLICT (id) DO UPDATE SET n = counts.n + 1",
    )


def carry(urls: Mapping[str, str], name: str, over: Flag) -> int:
    """Push from one master to all that it sends to, until the flag is set."""
    directory = Directory(urls)
    site, moved, rounds = directory[name], 0, 0
    try:
        while not over.is_set():
            now = 0
            for to in destinations(site):
                push = deferred.push(site, to, execution_seconds=TURN)
                now += push.transactions
            moved, rounds = moved + now, rounds + 1
            if rounds % PURGED == 0:
                deferred.purge(site, retention=timedelta(0))
            if not now:
                time.sleep(0.1)
    finally:
        directory.close()
    return moved
