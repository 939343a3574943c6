"""Reading values that Python types cannot hold, as the nearest value that they can.

Only rows in conflict become Python values, and they still compare as they should.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.datetime import IntervalLoader


class _Clamped(Loader):
    """Loads a value with the driver, or as the nearest end of Python's range."""

    #: name of the type, and the ends of its Python type
    kind: ClassVar[str]
    ends: ClassVar[tuple[Any, Any]]

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        driver = psycopg.adapters.get_loader(
            psycopg.adapters.types[self.kind].oid, Format.TEXT
        )
        assert driver is not None
        # Called, not inherited: the driver's loader is of a compiled class.
        self._read: Callable[[Buffer], Any] = driver(oid, context).load

    def load(self, data: Buffer) -> Any:
        try:
            return self._read(data)
        except (psycopg.DataError, OverflowError):
            text = bytes(data)
            past = text.startswith(b"-") or text.endswith(b"BC")
            return self.ends[0] if past else self.ends[1]


class _Date(_Clamped):
    kind, ends = "date", (date.min, date.max)


class _Timestamp(_Clamped):
    kind, ends = "timestamp", (datetime.min, datetime.max)


class _Timestamptz(_Clamped):
    kind = "timestamptz"
    ends = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


class _Time(_Clamped):
    """Loads the time 24:00:00, too, as the last one of the day."""

    kind, ends = "time", (time.min, time.max)


class _Timetz(_Clamped):
    kind = "timetz"
    ends = (time.min.replace(tzinfo=UTC), time.max.replace(tzinfo=UTC))


class _Interval(_Clamped):
    kind, ends = "interval", (timedelta.min, timedelta.max)

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        # The compiled loader overflows silently.
        self._read = IntervalLoader(oid, context).load

    def load(self, data: Buffer) -> Any:
        text = bytes(data)
        if text.endswith(b"infinity"):  # psycopg reads it as an interval of zero
            return self.ends[0] if text.startswith(b"-") else self.ends[1]
        return super().load(data)


def install(connection: psycopg.Connection[Any]) -> None:
    """Let a connection read infinite and very distant times, and the end of a day."""
    for loader in (_Date, _Timestamp, _Timestamptz, _Time, _Timetz, _Interval):
        connection.adapters.register_loader(loader.kind, loader)
