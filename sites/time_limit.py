"""A time limit for routines: each runs in a thread that can be abandoned.

Python cannot stop a thread. A routine that does not answer in time runs on in its own
thread, which ends with the process; the push goes on without its answer. After
`HANGING` such threads of one routine it is not called again until one of them ends, so
that a routine that always hangs costs little more than its limit a few times. The limit
cannot interrupt code that keeps the interpreter's lock (a C function that never
releases it), nor undo what a routine did elsewhere.
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

#: With this many abandoned threads, a routine is not called any more.
HANGING = 3


class TooSlow(Exception):
    """The routine did not answer in time; the text continues its name."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A function for a worker to call, and the queue for its answer."""

    function: Callable[[], object]
    answers: SimpleQueue[object]


class _Worker:
    """One thread that makes the calls it is given, one after the other.

    The thread ends when there is no reference to the worker any more: with the thread
    whose calls it makes.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(
            target=_serve, args=(self._calls,), name="snaptide-routine", daemon=True
        ).start()
        weakref.finalize(self, self._calls.put, None)

    def ask(self, function: Callable[[], object]) -> SimpleQueue[object]:
        """Have a function called; return the queue for its answer."""
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
    """Call a routine within a time limit; return or raise what it does.

    Parameters:
        name: the name under which the routine's hanging calls are counted.

    Raises:
        TooSlow: the routine did not answer in time, now or too often before.
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
        except BaseException as error:  # the user's code may raise anything
            raised.append(error)
        with _guard:
            if late.is_set():
                _hanging[name] -= 1

    # No variable here refers to the worker: a stored error keeps the variables of its
    # frames alive.
    answers = _worker().ask(run)
    try:
        answers.get(timeout=seconds)
    except Empty:
        with _guard:
            if not (found or raised):
                late.set()
                _hanging[name] += 1
        # Without this reference, the worker's thread ends after its present call.
        del _mine.worker
        raise TooSlow(f"did not answer within {seconds:g} seconds") from None
    if raised:
        # If a routine asks for an exit, this process must not end.
        raise raised[0] if isinstance(raised[0], Exception) else RuntimeError(raised[0])
    return found[0]
