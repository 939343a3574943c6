"""The program, with executors that compare few rows as well: `python -m` it."""

from snapshots.differences import comparison
from snaptide.cli import app

#: More rows than this are compared by executors.
MOST = 1_000

if __name__ == "__main__":
    comparison.SMALL_WINDOW = MOST
    app(prog_name="snaptide")
