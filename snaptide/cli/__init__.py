"""The command line, with one file per group of commands."""

from snaptide.cli.commands import app as app
