"""The trigger function of a snapshot log, as SQL text."""

from functools import partial

from sites import sql

load = partial(sql.load, package=__name__)
