"""Plays histories of snapshots whose conditions ask other tables."""

from __future__ import annotations

import sys

from tests.oracle.conditions import play, shapes
from tests.oracle.runner.main import main
from tests.oracle.runner.played import Game

if __name__ == "__main__":
    game = Game(name="conditions", play=play.world, shapes=shapes.ALL, each=60)
    sys.exit(main(game))
