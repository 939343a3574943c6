"""The functions that queue changes and read them, as SQL text: one part a file."""

from functools import partial

from sites import sql

load = partial(sql.load, package=__name__)
