"""Processes that work side by side, each on servers of its own."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from queue import Empty
from typing import Generic, TypeVar

from tests import fix_spark  # noqa: F401 - its options of the JVM

_PROCESSES = get_context("spawn")

Task = TypeVar("Task")
Done = TypeVar("Done")

#: What a process does with each task; its servers are there as long as the block.
Work = Callable[[], AbstractContextManager[Callable[[Task], Done]]]


class Crew(Generic[Task, Done]):
    """Takes tasks and gives back what came of them, in any order."""

    def __init__(self) -> None:
        self.asked: Queue[Task] = _PROCESSES.Queue()
        self.done: Queue[Done] = _PROCESSES.Queue()
        self.members: list[BaseProcess] = []

    def next(self) -> Done:
        """Wait for the next task that is done.

        Raises:
            RuntimeError: a process has ended by itself.
        """
        while True:
            try:
                return self.done.get(timeout=5)
            except Empty:
                for member in self.members:
                    if not member.is_alive():
                        raise RuntimeError(f"{member.name} has ended") from None


@contextmanager
def crew(work: Work[Task, Done], size: int) -> Iterator[Crew[Task, Done]]:
    """So many processes; they and their servers are gone at the end of the block.

    Parameters:
        work: travels to the processes by pickle.
        size: how many they are.
    """
    made: Crew[Task, Done] = Crew()
    for number in range(size):
        member: BaseProcess = _PROCESSES.Process(
            target=_work, args=(work, made.asked, made.done), name=f"player {number}"
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


def _work(work: Work[Task, Done], asked: Queue[Task], done: Queue[Done]) -> None:
    logging.disable(logging.WARNING)
    told: list[int] = []

    def stop(number: int, _: object) -> None:
        # Python drops the exception where it comes in a destructor.
        told.append(number)
        sys.exit(1)

    # Stopped from outside, it takes its servers away all the same.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with work() as do:
        while not told:
            with suppress(Empty):
                done.put(do(asked.get(timeout=1)))
