"""The kinds of campaign, by the name that --kind takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

#: Each is a module that fulfils `Kind`.
KINDS = {
    "async": "tests.campaign.asynchronous",
    "masters": "tests.campaign.several_masters",
    "sync": "tests.campaign.synchronous",
}

#: Where a crash was that nobody had named a place for.
ANY_TIME = "any time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """One fault: where, and what it hit."""

    #: a fault point, or `ANY_TIME`
    point: str
    #: what died or was cut: process, master, site, redis, jvm, line, ...
    victim: str
    #: what ran at that time: push, refresh, ...
    verb: str
    seconds: float


class Kind(Protocol):
    """A campaign cuts itself into episodes, that each end with a comparison."""

    def points(self) -> Sequence[str]:
        """The fault points that a campaign has to reach."""

    def size(self, number: int) -> int:
        """How many crashes an episode has at most."""

    def episode(self, seed: int, number: int, crashes: int) -> Iterator[Crash]:
        """Crash as often as told, then compare the end state.

        Parameters:
            seed: of the campaign; with `number` it decides everything.
            crashes: how many are wanted; there are no more than its size.

        Raises:
            AssertionError: the end is not what it would have been without.
        """


def find(name: str) -> Kind:
    """The kind of that name."""
    return cast(Kind, import_module(KINDS[name]))
