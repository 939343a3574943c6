"""What has been played so far, in a file: it goes on where it was stopped."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count, islice
from pathlib import Path

from tests.oracle.runner.played import Played


class State:
    """One line for each world, after one that says which seed it is of."""

    def __init__(self, path: Path, *, seed: int) -> None:
        self._path = path
        self._head: dict[str, object] = {"seed": seed}
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self._head)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if lines[0] != self._head:
            raise SystemExit(f"{path} is of another seed: remove it, or name one.")
        self._worlds = lines[1:]

    @property
    def histories(self) -> int:
        """How many have been played."""
        return sum(world["histories"] for world in self._worlds)

    def left(self, histories: int, each: int) -> list[int]:
        """The numbers of the worlds that have to be played yet.

        Parameters:
            histories: how many there have to be in the end.
            each: of each world.
        """
        worlds = -(-(histories - self.histories) // each)
        done = {world["number"] for world in self._worlds}
        return list(islice((n for n in count(1) if n not in done), max(0, worlds)))

    def met(self) -> Counter[str]:
        """In how many histories each shape occurred."""
        return self._sum("met")

    def counts(self) -> Counter[str]:
        """How often things happened that the stories of worlds count."""
        return self._sum("counts")

    def add(self, played: Played) -> None:
        """Note a world, and write its story beside, if something was not told in it."""
        if played.violations:
            beside = f"{self._path.stem}-{played.number}.story"
            self._path.with_name(beside).write_text(f"{played.story}\n")
        line = {
            "number": played.number,
            "kind": played.kind,
            "histories": played.histories,
            "met": dict(sorted(played.met.items())),
            "counts": dict(sorted(played.counts.items())),
            "violations": [f"{v.history}: {v.what}" for v in played.violations],
        }
        self._worlds.append(line)
        self._append(line)

    def _sum(self, what: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for world in self._worlds:
            found.update(world.get(what, {}))
        return found

    def _append(self, line: dict[str, object]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
