"""Plays histories of snapshots whose conditions ask other tables."""

from __future__ import annotations

import sys

from tests.oracle.conditions.play import GAME
from tests.oracle.runner.main import main

if __name__ == "__main__":
    sys.exit(main(GAME))
