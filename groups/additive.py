"""Recognizes DDL that only adds columns, which can run while users write.

A column that may be null, or has a constant for its default, changes no row that is
there: all masters see the same values in it, whatever is on its way between them.
"""

from __future__ import annotations

import logging

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

# It warns of statements that it cannot read; these merely count as other DDL.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

#: Types whose values mean the same whenever they are read: no time, no name.
_PLAIN = {
    *exp.DataType.TEXT_TYPES,
    *exp.DataType.NUMERIC_TYPES,
    exp.DataType.Type.BOOLEAN,
}
#: Types that bring a default of their own, or may do so.
_NOT_ADDED = {
    exp.DataType.Type.SERIAL,
    exp.DataType.Type.BIGSERIAL,
    exp.DataType.Type.SMALLSERIAL,
    exp.DataType.Type.USERDEFINED,
}


def only_adds_columns(statements: str) -> bool:
    """Whether DDL does nothing but add columns that change no row.

    Statements that cannot be read for sure count as doing more.
    """
    try:
        parsed = sqlglot.parse(statements, read="postgres")
    except SqlglotError:
        return False
    there = [one for one in parsed if one is not None]
    return bool(there) and all(map(_adds_columns, there))


def _adds_columns(statement: exp.Expr) -> bool:
    return (
        isinstance(statement, exp.Alter)
        and statement.args.get("kind") == "TABLE"
        and not statement.args.get("only")
        and all(map(_is_added, statement.args.get("actions") or [None]))
    )


def _is_added(action: exp.Expr | None) -> bool:
    if not isinstance(action, exp.ColumnDef):
        return False
    kind = action.args.get("kind")
    if not isinstance(kind, exp.DataType):
        return False
    if any(one.this in _NOT_ADDED for one in kind.find_all(exp.DataType)):
        return False
    rules = [one.args.get("kind") for one in action.args.get("constraints") or []]
    defaults = (one for one in rules if isinstance(one, exp.DefaultColumnConstraint))
    default = next(defaults, None)
    return all(_is_harmless(rule, kind, default) for rule in rules)


def _is_harmless(
    rule: exp.Expr | None,
    kind: exp.DataType,
    default: exp.DefaultColumnConstraint | None,
) -> bool:
    if isinstance(rule, exp.CollateColumnConstraint):
        return True
    if isinstance(rule, exp.NotNullColumnConstraint):
        return bool(rule.args.get("allow_null")) or _not_null(default)
    if isinstance(rule, exp.DefaultColumnConstraint):
        return _is_constant(rule.this, kind)
    return False


def _not_null(default: exp.DefaultColumnConstraint | None) -> bool:
    return default is not None and not isinstance(default.this, exp.Null)


def _is_constant(value: exp.Expr, kind: exp.DataType) -> bool:
    if isinstance(value, exp.Null):
        return True
    if kind.this not in _PLAIN:
        return False
    if isinstance(value, exp.Neg):
        value = value.this
    return isinstance(value, exp.Literal | exp.Boolean)
