"""The command line: one file a group of commands."""

from snaptide.cli.app import app

__all__ = ["app"]
