"""What a campaign has done so far, in a file: it goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.campaign.kinds import Crash


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
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(self._head)
        elif json.loads(path.read_text().splitlines()[0]) != self._head:
            raise SystemExit(f"{path} is of another campaign: remove it, or name one.")

    def episodes(self) -> Iterator[Episode]:
        """All episodes that ended well."""
        for line in self._path.read_text().splitlines()[1:]:
            found = json.loads(line)
            crashes = tuple(Crash(**crash) for crash in found["crashes"])
            yield Episode(number=found["number"], crashes=crashes)

    def add(self, number: int, crashes: Sequence[Crash]) -> None:
        """Note an episode that ended well."""
        self._append({"number": number, "crashes": [asdict(c) for c in crashes]})

    def _append(self, line: dict[str, object]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
