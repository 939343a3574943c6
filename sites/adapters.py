"""Values of the database that Python has no place for, as the nearest it has.

Only rows in conflict become Python values; these still compare as they should.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import psycopg
from psycopg.types.datetime import (
    DateLoader,
    IntervalLoader,
    TimeLoader,
    TimestampLoader,
    TimestamptzLoader,
    TimetzLoader,
)


class _Date(DateLoader):
    def load(self, data: Any) -> date:
        value: date = _clamped(bytes(data), super().load, date.min, date.max)
        return value


class _Timestamp(TimestampLoader):
    def load(self, data: Any) -> datetime:
        ends = (datetime.min, datetime.max)
        value: datetime = _clamped(bytes(data), super().load, *ends)
        return value


class _Timestamptz(TimestamptzLoader):
    def load(self, data: Any) -> datetime:
        lowest, highest = (
            end.replace(tzinfo=UTC) for end in (datetime.min, datetime.max)
        )
        value: datetime = _clamped(bytes(data), super().load, lowest, highest)
        return value


class _Time(TimeLoader):
    def load(self, data: Any) -> time:
        # The end of the day is 24:00:00.
        value: time = _clamped(bytes(data), super().load, time.min, time.max)
        return value


class _Timetz(TimetzLoader):
    def load(self, data: Any) -> time:
        ends = (time.min.replace(tzinfo=UTC), time.max.replace(tzinfo=UTC))
        value: time = _clamped(bytes(data), super().load, *ends)
        return value


class _Interval(IntervalLoader):
    def load(self, data: Any) -> timedelta:
        ends = (timedelta.min, timedelta.max)
        if bytes(data).endswith(b"infinity"):  # psycopg reads it as no time at all
            return ends[0] if bytes(data).startswith(b"-") else ends[1]
        value: timedelta = _clamped(bytes(data), super().load, *ends)
        return value


def install(connection: psycopg.Connection[Any]) -> None:
    """Let a connection read what is infinite, very distant, or the end of a day."""
    connection.adapters.register_loader("date", _Date)
    connection.adapters.register_loader("timestamp", _Timestamp)
    connection.adapters.register_loader("timestamptz", _Timestamptz)
    connection.adapters.register_loader("time", _Time)
    connection.adapters.register_loader("timetz", _Timetz)
    connection.adapters.register_loader("interval", _Interval)


def _clamped(data: bytes, load: Any, lowest: Any, highest: Any) -> Any:
    try:
        return load(data)
    except (psycopg.DataError, OverflowError):
        past = data.startswith(b"-") or data.endswith(b"BC")
        return lowest if past else highest
