"""Prints values at a site as every session of ours prints them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select

from sites.sessions.settings import SETTINGS

#: The settings that the text of a value depends on.
_NAMES = (
    "datestyle",
    "intervalstyle",
    "timezone",
    "extra_float_digits",
    "bytea_output",
    "lc_monetary",
    "xmloption",
)


@contextmanager
def as_ours(connection: Connection) -> Iterator[None]:
    """Have a session of an application's print values as its master reads them.

    The settings hold in its transaction while the block runs. If a statement fails, so
    does the transaction, and takes the settings back.
    """
    current = connection.execute(select(*(func.current_setting(n) for n in _NAMES)))
    theirs = dict(zip(_NAMES, current.one(), strict=True))
    ours = {name: SETTINGS[name] for name in _NAMES}
    _set(connection, {n: v for n, v in ours.items() if not _same(v, theirs[n])})
    yield
    _set(connection, {n: v for n, v in theirs.items() if not _same(v, ours[n])})


def _same(one: str, other: str) -> bool:
    return one.replace(" ", "").lower() == other.replace(" ", "").lower()


def _set(connection: Connection, settings: dict[str, str]) -> None:
    if settings:
        values = (func.set_config(n, v, True) for n, v in settings.items())
        connection.execute(select(*values))
