"""Commits that need no flush of their own, because the next one flushes them too.

A flush takes longer than the statements of a small transaction. PostgreSQL writes its
log in one order: what commits later in the same cluster and is flushed makes all before
it durable. So a commit may do without if nothing outside this cluster learns of it
before the next flush here (docs/decisions/0015-flushes.md).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, ColumnElement, bindparam, case, func

#: Has the transaction of the statement that returns it commit without a flush.
LATER = func.set_config("synchronous_commit", "off", True)


def unless(name: str) -> ColumnElement[Any]:
    """Has the commit flushed as the database says, if the parameter `name` is true.

    If it is false, the commit is not flushed.
    """
    usual = func.current_setting("synchronous_commit")
    how = case((bindparam(name, True, Boolean), usual), else_="off")
    return func.set_config("synchronous_commit", how, True)
