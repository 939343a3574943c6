"""Plays runs of checks under load, with rows planted for them to find."""

from __future__ import annotations

import sys

from tests.oracle.checks.play import GAME
from tests.oracle.runner.main import main

if __name__ == "__main__":
    sys.exit(main(GAME))
