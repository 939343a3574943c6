"""Plays histories of rows, columns and masters."""

from __future__ import annotations

import sys

from tests.oracle.histories import play, shapes
from tests.oracle.runner.main import main
from tests.oracle.runner.played import Game

if __name__ == "__main__":
    game = Game(name="histories", play=play.world, shapes=shapes.ALL, each=60)
    sys.exit(main(game))
