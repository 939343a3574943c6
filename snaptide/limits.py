"""Reading limits as people write them: ages and sizes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from deferred.interval import check_interval, seconds_of
from snaptide.errors import BadArgument

_Limit = TypeVar("_Limit", timedelta, int)

#: What an option says instead of a limit.
NONE = "none"

#: The largest number that the catalog can store.
_MOST = 2**63 - 1
_UNITS = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60}


def age_of(text: str) -> timedelta:
    """An age like `12h` or `7d`.

    Raises:
        BadInterval, BadArgument: it is none.
    """
    seconds = seconds_of(text)
    if seconds is None:
        raise BadArgument(f"{text!r} is not a duration; write 12h or 7d.")
    check_interval(text)
    return timedelta(seconds=seconds)


def bytes_of(text: str) -> int:
    """A size like `500MB` or `10GB`, in bytes.

    Raises:
        BadArgument: it is none, or more than a database can hold.
    """
    number = text.rstrip("kMGTB ")
    unit = text[len(number) :].strip() or "B"
    if not number.isdecimal() or unit not in _UNITS:
        raise BadArgument(f"{text!r} is not a size; write 500MB or 10GB.")
    found = int(number) * _UNITS[unit]
    if found > _MOST:
        raise BadArgument(f"{text!r} is more than a database can hold.")
    return found


def unless_none(text: str, read: Callable[[str], _Limit]) -> _Limit | None:
    """A limit that an option names; None if it says `NONE`.

    Parameters:
        read: `age_of` or `bytes_of`.

    Raises:
        BadInterval, BadArgument: it is no limit.
    """
    return None if text == NONE else read(text)


def as_age(limit: timedelta) -> str:
    """An age as `age_of` reads it."""
    seconds = limit.total_seconds()
    for unit, size in _SECONDS.items():
        if seconds and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds}s"


def as_size(limit: int) -> str:
    """A size as `bytes_of` reads it."""
    for unit, size in reversed(_UNITS.items()):
        if limit and limit % size == 0:
            return f"{limit // size}{unit}"
    return f"{limit}B"
