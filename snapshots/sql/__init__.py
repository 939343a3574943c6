"""The functions that a snapshot has at its site, as SQL text: one a file."""

from functools import partial

from sites import sql

load = partial(sql.load, package=__name__)
