"""Plays histories until so many are done; stopped at any time, it goes on there.

What it prints of a violation, given as `--only`, plays that history again. The story of
its world is beside the state: what depends on time may not come again.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.crew import Crew, crew
from tests.oracle.runner import report
from tests.oracle.runner.ground import Ground, ground
from tests.oracle.runner.played import Game, Played, play
from tests.oracle.runner.state import State

#: Violations of one world that are printed; all of them are noted.
SHOWN = 5


def main(game: Game) -> int:
    """Play, note what is done, and print how often each shape occurred."""
    asked = _arguments(game)
    logging.disable(logging.WARNING)
    # Stopped from outside, it takes its servers away all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console(width=max(Console().width, 120))
    path = asked.state or Path(f"build/{game.name}-{asked.seed}.jsonl")
    if asked.only:
        with ground(asked.pg) as here:
            return _again(console, game, here, asked)
    state = State(path, seed=asked.seed)
    console.print(f"seed {asked.seed}, {state.histories} done, state in {path}")
    player = partial(_player, game, asked.seed, asked.each, asked.pg)
    with crew(player, asked.jobs) as players:
        failed = _played(console, state, asked, players)
    console.print(report.table(state.met(), state.histories, game.shapes))
    if game.told is not None:
        console.print(game.told(state.counts()))
    return 1 if failed else 0


@contextmanager
def _player(
    game: Game, seed: int, each: int, version: int
) -> Iterator[Callable[[int], Played]]:
    """What plays the world of a number."""
    with ground(version) as here:
        yield lambda number: play(game, here, seed, number, each)


def _played(
    console: Console,
    state: State,
    asked: argparse.Namespace,
    players: Crew[int, Played],
) -> int:
    """Play what is left of a run; the number of violations."""
    failed, began = 0, time.monotonic()
    numbers = asked.worlds or state.left(asked.histories, asked.each)
    for number in numbers:
        players.asked.put(number)
    for _ in numbers:
        made = players.next()
        state.add(made)
        failed += len(made.violations)
        console.print(
            f"world {made.number} ({made.kind}): {made.histories} histories,"
            f" {state.histories} in all, {time.monotonic() - began:.0f} s"
        )
        for violation in made.violations[:SHOWN]:
            # Of a world that broke off, no history is known.
            which = f":{violation.history}" if violation.history else ""
            console.print(
                f"  --seed {asked.seed} --only {made.number}{which}"
                f" {violation.what[-1500:]}",
                markup=False,
                soft_wrap=True,
            )
        if made.violations and not asked.keep_going:
            break
    return failed


def _again(
    console: Console, game: Game, here: Ground, asked: argparse.Namespace
) -> int:
    """Play one history again, or one world, and tell its whole story."""
    world, _, history = asked.only.partition(":")
    chosen = {int(n) for n in history.split(",")} if history else None
    made = play(game, here, asked.seed, int(world), asked.each, chosen)
    console.print(made.story, markup=False, soft_wrap=True)
    for violation in made.violations:
        console.print(
            f"{violation.history}: {violation.what}", markup=False, soft_wrap=True
        )
    return 1 if made.violations else 0


def _arguments(game: Game) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.oracle.{game.name}", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(f"--{game.counted}", dest="histories", type=int, default=1000)
    parser.add_argument(
        "--each", type=int, default=game.each, help=f"{game.counted} of a world"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that play side by side, each on its own servers",
    )
    parser.add_argument(
        "--worlds",
        type=int,
        nargs="+",
        help="play the worlds with these numbers, whatever is done",
    )
    parser.add_argument("--only", help="WORLD or WORLD:HISTORY, to be played again")
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--pg", type=int, default=18)
    parser.add_argument("--state", type=Path, help="where to note what is done")
    return parser.parse_args()
