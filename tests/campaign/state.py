"""What a campaign has done so far, in a file: it goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from tests.campaign.kinds import Crash


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An episode that is to be played."""

    number: int
    #: how many are wanted at most
    crashes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """An episode that came to a good end."""

    number: int
    crashes: tuple[Crash, ...]


class State:
    """One line for each episode, after one that says which campaign it is."""

    def __init__(self, path: Path, *, kind: str, seed: int) -> None:
        self._path = path
        self._head = {"kind": kind, "seed": seed}
        #: all episodes that ended well
        self.episodes: list[Episode] = []
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self._head)
            return
        head, *lines = [json.loads(line) for line in path.read_text().splitlines()]
        if head != self._head:
            raise SystemExit(f"{path} is of another campaign: remove it, or name one.")
        for line in lines:
            crashes = tuple(Crash(**crash) for crash in line["crashes"])
            self.episodes.append(Episode(number=line["number"], crashes=crashes))

    @property
    def crashes(self) -> int:
        """How many have been made."""
        return sum(len(episode.crashes) for episode in self.episodes)

    def left(self, crashes: int, size: Callable[[int], int]) -> list[Order]:
        """The episodes that have to be played yet.

        Parameters:
            crashes: how many there have to be in the end.
            size: of an episode, by its number.
        """
        return list(self._orders(crashes - self.crashes, size))

    def _orders(self, wanted: int, size: Callable[[int], int]) -> Iterator[Order]:
        done = {episode.number for episode in self.episodes}
        numbers = (number for number in count(1) if number not in done)
        while wanted > 0:
            number = next(numbers)
            made = min(wanted, size(number))
            yield Order(number=number, crashes=made)
            wanted -= made

    def add(self, episode: Episode) -> None:
        """Note an episode that ended well."""
        self.episodes.append(episode)
        crashes = [asdict(crash) for crash in episode.crashes]
        self._append({"number": episode.number, "crashes": crashes})

    def _append(self, line: dict[str, object]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
