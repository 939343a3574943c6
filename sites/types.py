"""Column types that pass through Snaptide without being interpreted."""

from __future__ import annotations

from typing import Any

from sqlalchemy.types import UserDefinedType


class NativeType(UserDefinedType[object]):
    """A type of the database, by the name that the database itself prints.

    Parameters:
        name: as `format_type()` prints it, for example `numeric(10,2)`.
    """

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name


class PgSnapshot(NativeType):
    """A position: which transactions a reader has seen (PostgreSQL `pg_snapshot`)."""

    cache_ok = True

    def __init__(self, *_: object) -> None:
        super().__init__("pg_snapshot")


class Xid8(NativeType):
    """A top-level transaction id of 64 bits, which never wraps."""

    cache_ok = True

    def __init__(self, *_: object) -> None:
        super().__init__("xid8")
