"""The command line: one file a group of commands."""

from snaptide.cli.commands import app

__all__ = ["app"]
