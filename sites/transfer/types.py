"""Column types that pass through Snaptide without being interpreted."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, cast, func, not_
from sqlalchemy.sql import operators
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import UserDefinedType


class _Comparator(UserDefinedType.Comparator[Any]):
    """Compares by the type's own operator, whatever its schema.

    Our sessions look up operators in pg_catalog alone: `=` would not find an operator
    of an extension, or find that of a type to which the value can be cast.
    """

    def operate(
        self, op: OperatorType, *other: Any, **kwargs: Any
    ) -> ColumnElement[Any]:
        equality = getattr(self.type, "equality", None)
        if equality is None or op not in _OPERATORS:
            return super().operate(op, *other, **kwargs)
        if op is operators.eq:
            return self.expr.bool_op(f"OPERATOR({equality})")(*other)
        # The operator of IS DISTINCT FROM cannot be named; a record uses the right one.
        same = as_record(self.expr) == as_record(other[0])
        return not_(same) if op is operators.is_distinct_from else same


_OPERATORS = (
    operators.eq,
    operators.is_distinct_from,
    operators.is_not_distinct_from,
)


class NativeType(UserDefinedType[object]):
    """A type of the database, by the name that the database itself prints.

    Parameters:
        name: as `format_type()` prints it, for example `numeric(10,2)`.
        equality: the operator for equality, if it is not in pg_catalog.
    """

    cache_ok = True
    comparator_factory = _Comparator

    def __init__(self, name: str, equality: str | None = None) -> None:
        self.name = name
        self.equality = equality

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


def as_record(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """A value as a row of one column: a row is compared by its types' own operators."""
    return cast(func.row(value), NativeType("record"))
