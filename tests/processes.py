"""Processes of a test's own, to be killed there, that begin without importing much."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

#: They are forked from one that has imported all this: it takes a second each time.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.campaign.bank", "tests.campaign.group_verbs"])


class Elsewhere:
    """A function that runs in a process of its own.

    Parameters:
        function: of a module, as its process finds it.
        arguments: of it; they travel by pickle.
        fault: what goes wrong there, as SNAPTIDE_FAULT says it.
    """

    def __init__(
        self, function: Callable[..., object], *arguments: object, fault: str = ""
    ) -> None:
        self._answer, theirs = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(
            target=_run, args=(theirs, function, arguments, fault), daemon=True
        )
        self._process.start()
        theirs.close()

    def end(self, *, seconds: float = 300) -> tuple[int, str]:
        """Wait for it; its exit status, and what it returned or raised."""
        self._process.join(seconds)
        status = self._process.exitcode
        assert status is not None, f"it does not end in {seconds:g} seconds"
        try:
            return status, self._answer.recv()
        except EOFError:
            return status, "nothing"
        finally:
            self._answer.close()
            self._process.close()


def _run(
    answer: Connection,
    function: Callable[..., object],
    arguments: tuple[object, ...],
    fault: str,
) -> None:
    os.environ["SNAPTIDE_FAULT"] = fault
    try:
        said = str(function(*arguments))
    except BaseException:
        answer.send(traceback.format_exc())
        raise
    answer.send(said)
