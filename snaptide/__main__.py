"""Runs the command line: `python -m snaptide` does what `snaptide` does."""

from snaptide.cli import app

if __name__ == "__main__":
    app(prog_name="snaptide")
