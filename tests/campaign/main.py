"""Runs a campaign of crashes; stopped at any time, it goes on where it was."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.campaign import kinds, report
from tests.campaign.kinds import Crash, Kind
from tests.campaign.state import Episode, Order, State
from tests.crew import crew


def main() -> int:
    """Crash until the count is reached, and say what was hit."""
    asked = _arguments()
    # Stopped from outside, it takes its servers away all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console, kind = _console(), kinds.find(asked.kind)
    path = asked.state or Path(f"build/campaign-{asked.kind}-{asked.seed}.jsonl")
    state = State(path, kind=asked.kind, seed=asked.seed)
    orders = state.left(asked.crashes, kind.size)
    console.print(f"seed {asked.seed}, {state.crashes} crashes done, state in {path}")
    with crew(
        partial(_player, asked.kind, asked.seed), min(asked.jobs, len(orders))
    ) as players:
        for order in orders:
            players.asked.put(order)
        for _ in orders:
            episode = players.next()
            state.add(episode)
            console.print(
                f"episode {episode.number}: {len(episode.crashes)} crashes,"
                f" {state.crashes} in all"
            )
    crashes = [crash for episode in state.episodes for crash in episode.crashes]
    points = kind.points()
    console.print(report.table(crashes, points))
    missed = report.missed(crashes, points)
    if missed:
        console.print(f"Not reached: {', '.join(missed)}")
    return 1 if missed else 0


@contextmanager
def _player(name: str, seed: int) -> Iterator[Callable[[Order], Episode]]:
    """What plays the episodes of a campaign, in a world of its process."""
    kind, console = kinds.find(name), _console()
    yield lambda order: Episode(
        number=order.number, crashes=tuple(_crashes(console, kind, seed, order))
    )


def _crashes(console: Console, kind: Kind, seed: int, order: Order) -> Iterator[Crash]:
    try:
        for crash in kind.episode(seed, order.number, order.crashes):
            console.print(
                f"  {order.number}: {crash.verb}, {crash.point}: {crash.victim},"
                f" {crash.seconds} s"
            )
            yield crash
    except Exception:
        print(f"Episode {order.number} of seed {seed} failed.", file=sys.stderr)  # noqa: T201
        raise


def _console() -> Console:
    return Console(width=max(Console().width, 120))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign", description=__doc__
    )
    parser.add_argument("--kind", choices=sorted(kinds.KINDS), default="async")
    parser.add_argument("--crashes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that crash side by side, each with its own servers",
    )
    parser.add_argument("--state", type=Path, help="where to note what is done")
    return parser.parse_args()
