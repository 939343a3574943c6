"""Runs a campaign of crashes; stopped at any time, it goes on where it was."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from tests.campaign import kinds, report
from tests.campaign.kinds import Crash, Kind
from tests.campaign.state import State


def main() -> int:
    """Crash until the count is reached, and say what was hit."""
    asked = _arguments()
    console = Console(width=max(Console().width, 120))
    kind = kinds.find(asked.kind)
    path = asked.state or Path(f"build/campaign-{asked.kind}-{asked.seed}.jsonl")
    state = State(path, kind=asked.kind, seed=asked.seed)
    done = list(state.episodes())
    crashes = [crash for episode in done for crash in episode.crashes]
    number = 1 + max((episode.number for episode in done), default=0)
    console.print(f"seed {asked.seed}, {len(crashes)} crashes done, state in {path}")
    while len(crashes) < asked.crashes:
        wanted = asked.crashes - len(crashes)
        made = _episode(console, kind, asked.seed, number, wanted)
        state.add(number, made)
        crashes += made
        console.print(f"episode {number}: {len(made)} crashes, {len(crashes)} in all")
        number += 1
    points = kind.points()
    console.print(report.table(crashes, points))
    missed = report.missed(crashes, points)
    if missed:
        console.print(f"Not reached: {', '.join(missed)}")
    return 1 if missed else 0


def _episode(
    console: Console, kind: Kind, seed: int, number: int, wanted: int
) -> list[Crash]:
    try:
        crashes = []
        for crash in kind.episode(seed, number, wanted):
            console.print(
                f"  {crash.verb}, {crash.point}: {crash.victim}, {crash.seconds} s"
            )
            crashes.append(crash)
        return crashes
    except BaseException:
        print(f"Episode {number} of seed {seed} failed.", file=sys.stderr)  # noqa: T201
        raise


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign", description=__doc__
    )
    parser.add_argument("--kind", choices=sorted(kinds.KINDS), default="async")
    parser.add_argument("--crashes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, help="where to note what is done")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
