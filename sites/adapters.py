"""Values of the database that Python has no place for, as the nearest it has.

Only rows in conflict become Python values; these still compare as they should.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import psycopg
from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader


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


def install(connection: psycopg.Connection[Any]) -> None:
    """Let a connection read infinite and very distant dates and timestamps."""
    connection.adapters.register_loader("date", _Date)
    connection.adapters.register_loader("timestamp", _Timestamp)
    connection.adapters.register_loader("timestamptz", _Timestamptz)


def _clamped(data: bytes, load: Any, lowest: Any, highest: Any) -> Any:
    try:
        return load(data)
    except psycopg.DataError:
        past = data.startswith(b"-") or data.endswith(b"BC")
        return lowest if past else highest
