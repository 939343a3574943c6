"""What a statement does to its transaction, as far as its text shows."""

from __future__ import annotations

import re

#: Whitespace and comments, which may stand before a statement, and after it.
_NOTHING = r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*"
#: A savepoint's name, and the statement's end.
_NAME = r"(?P<name>\"(?:[^\"]|\"\")+\"|[^\s;\"/-]+)" + _NOTHING + r"\Z"
#: Statements that set a savepoint, release it, and roll back to it.
SET = re.compile(_NOTHING + r"savepoint\s+" + _NAME, re.IGNORECASE)
RELEASE = re.compile(_NOTHING + r"release\s+(?:savepoint\s+)?" + _NAME, re.IGNORECASE)
BACK = re.compile(
    _NOTHING + r"rollback\s+(?:(?:work|transaction)\s+)?to\s+(?:savepoint\s+)?" + _NAME,
    re.IGNORECASE,
)
_CONTROL = re.compile(
    _NOTHING + r"(?:begin|start\s+transaction|commit|end|rollback|abort"
    r"|prepare\s+transaction)\b",
    re.IGNORECASE,
)
_CONSTRAINTS = re.compile(r"\s*set\s+constraints\b", re.IGNORECASE)


def ends_transaction(statement: str) -> bool:
    """Whether a statement would end the transaction, or begin another one.

    If the text has several statements, only the first one is looked at.
    """
    return _CONTROL.match(statement) is not None and BACK.match(statement) is None


def checks_constraints(statement: str) -> bool:
    """Whether a statement may run deferred checks, ours among them."""
    return _CONSTRAINTS.match(statement) is not None
