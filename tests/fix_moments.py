"""Acting in the middle of a push or refresh that runs in the test's own process."""

from collections.abc import Callable

import pytest

from deferred.pushing import batch_by_batch
from sites import faults


class Moments:
    """Does something the first time that a program reaches a fault point."""

    def __init__(self) -> None:
        self._wanted: dict[str, Callable[[], object]] = {}
        self.reached: list[str] = []

    def at(self, point: str, do: Callable[[], object]) -> None:
        """Do it at this point, once."""
        self._wanted[point] = do

    def __call__(self, point: str) -> None:
        self.reached.append(point)
        action = self._wanted.pop(point, None)
        if action is not None:
            action()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push ends soon where users keep their rows, and does not come again."""
    monkeypatch.setattr(batch_by_batch, "PAUSES", (0.01,))


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    """Lets a test act in the middle of a push or refresh of its own process."""
    made = Moments()
    monkeypatch.setattr(faults, "point", made)
    return made
