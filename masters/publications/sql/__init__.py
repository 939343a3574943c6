"""SQL about the rights of logins, as text."""

from functools import partial

from sites import sql

load = partial(sql.load, package=__name__)
