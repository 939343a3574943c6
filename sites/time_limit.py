"""A time limit for routines: they run in a thread that may be left behind.

Python cannot stop a thread. A routine that does not answer in time is left to run
on in its own, which ends with the process; the push goes on without its answer.
After `HANGING` such threads of one routine it is not called again until one of them
ends, so that a routine that always hangs costs little more than its limit a few
times. What the limit cannot do: interrupt code that keeps the interpreter's lock
(a C function that never gives it back), or undo what a routine did elsewhere.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

Given = TypeVar("Given")
Answer = TypeVar("Answer")

#: Threads of one routine that are left behind before it is not called any more.
HANGING = 3


class TooSlow(Exception):
    """The routine did not answer in time; the text says it of the routine."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What a worker is to call, and where its answer goes."""

    function: Callable[[], object]
    answers: SimpleQueue[object]


class _Worker:
    """One thread that calls what it is given, one call after the other.

    It ends once nobody holds the worker: with the thread whose calls it makes.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(
            target=_serve, args=(self._calls,), name="snaptide-routine", daemon=True
        ).start()
        weakref.finalize(self, self._calls.put, None)

    def ask(self, function: Callable[[], object]) -> SimpleQueue[object]:
        """Have a function called; where its answer will be."""
        answers: SimpleQueue[object] = SimpleQueue()
        self._calls.put(_Call(function, answers))
        return answers


def _serve(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        call.answers.put(call.function())


_mine = threading.local()
_hanging: Counter[str] = Counter()
_guard = threading.Lock()


def _worker() -> _Worker:
    """The worker of this thread."""
    if not hasattr(_mine, "worker"):
        _mine.worker = _Worker()
    worker: _Worker = _mine.worker
    return worker


def call(
    name: str, function: Callable[[Given], Answer], given: Given, seconds: float
) -> Answer:
    """What a routine returns, or raises.

    Parameters:
        name: under which the routine's hanging calls are counted.

    Raises:
        TooSlow: it did not answer in time, now or too often before.
    """
    with _guard:
        if _hanging[name] >= HANGING:
            raise TooSlow(f"still hangs in {_hanging[name]} earlier calls")
    late = threading.Event()
    found: list[Answer] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function(given))
        except BaseException as error:  # whatever the user's code raises
            raised.append(error)
        with _guard:
            if late.is_set():
                _hanging[name] -= 1

    # No name here is the worker's: an error that is kept keeps what its frames name.
    answers = _worker().ask(run)
    try:
        answers.get(timeout=seconds)
    except Empty:
        with _guard:
            if not (found or raised):
                late.set()
                _hanging[name] += 1
        # Nobody holds it any more: its thread ends once its present call is over.
        del _mine.worker
        raise TooSlow(f"did not answer within {seconds:g} seconds") from None
    if raised:
        # An exit that a routine asks for is not the worker's.
        raise raised[0] if isinstance(raised[0], Exception) else RuntimeError(raised[0])
    return found[0]
