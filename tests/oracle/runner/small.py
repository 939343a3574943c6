"""A few worlds of a game, as the tests of CI play them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from rich.console import Console

from tests.oracle.runner import report
from tests.oracle.runner.ground import ground
from tests.oracle.runner.played import Game, play


def met(
    game: Game, version: int, seed: int, worlds: Collection[int], histories: int
) -> Counter[str]:
    """Play worlds on servers of their own, and see that nobody is left untold.

    Parameters:
        version: of PostgreSQL.
        worlds: their numbers.
        histories: how many each of them has.

    Returns:
        In how many histories each shape occurred.
    """
    found: Counter[str] = Counter()
    with ground(version) as here:
        for number in worlds:
            played = play(game, here, seed, number, histories)
            wrong = [f"{one.history}: {one.what}" for one in played.violations]
            assert not wrong, "\n".join([*wrong, *played.story.splitlines()[-200:]])
            found.update(played.met)
    Console().print(report.table(found, histories * len(worlds), game.shapes))
    return found
