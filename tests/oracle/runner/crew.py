"""Processes that play worlds side by side, each on servers of its own."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from queue import Empty

from tests import fix_spark  # noqa: F401 - its options of the JVM
from tests.oracle.runner.ground import ground
from tests.oracle.runner.played import Game, Played, play

_PROCESSES = get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What all worlds of a run have in common."""

    game: Game
    seed: int
    each: int
    pg: int


class Crew:
    """Takes numbers of worlds and gives back what came of them, in any order."""

    def __init__(self) -> None:
        self.asked: Queue[int] = _PROCESSES.Queue()
        self.played: Queue[Played] = _PROCESSES.Queue()
        self.members: list[BaseProcess] = []

    def next(self) -> Played:
        """Wait for the next world that is played.

        Raises:
            RuntimeError: a process has ended by itself.
        """
        while True:
            try:
                return self.played.get(timeout=5)
            except Empty:
                for member in self.members:
                    if not member.is_alive():
                        raise RuntimeError(f"{member.name} has ended") from None


@contextmanager
def crew(order: Order, size: int) -> Iterator[Crew]:
    """So many processes; they and their servers are gone at the end of the block."""
    made = Crew()
    for number in range(size):
        member: BaseProcess = _PROCESSES.Process(
            target=_play, args=(order, made.asked, made.played), name=f"player {number}"
        )
        member.start()
        made.members.append(member)
    try:
        yield made
    finally:
        for member in made.members:
            member.terminate()
        for member in made.members:
            member.join()


def _play(order: Order, asked: Queue[int], played: Queue[Played]) -> None:
    logging.disable(logging.WARNING)
    # Stopped from outside, it takes its servers away all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ground(order.pg) as here:
        while True:
            number = asked.get()
            made = play(order.game, here, order.seed, number, order.each)
            played.put(made)
