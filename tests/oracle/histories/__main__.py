"""Plays histories of rows, columns and masters."""

from __future__ import annotations

import sys

from tests.oracle.histories.play import GAME
from tests.oracle.runner.main import main

if __name__ == "__main__":
    sys.exit(main(GAME))
