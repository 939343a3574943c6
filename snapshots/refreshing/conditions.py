"""Names the snapshot whose condition the master cannot evaluate any more.

A condition is kept as a text, so that PostgreSQL lets users rename or drop what it
names: a value of an enum, a function, a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError

from sites.conditions import where
from sites.conditions.where import BadCondition
from sites.transfer.arrow import ArrowTransportFailed
from snapshots.errors import ConditionBroken
from snapshots.refreshing.task import Task

#: No such value of a type, function, type, schema; values of other types.
_OUTDATED = {"22P02", "42883", "42704", "3F000", "42804"}


@contextmanager
def explained(task: Task) -> Iterator[None]:
    """Look at the conditions of a refresh if the block fails as a broken one does.

    Raises:
        ConditionBroken: the master refuses one of them.
    """
    try:
        yield
    except (DBAPIError, psycopg.Error, ArrowTransportFailed) as error:
        if getattr(getattr(error, "orig", error), "sqlstate", None) in _OUTDATED:
            _refuse_broken(task)
        raise


def _refuse_broken(task: Task) -> None:
    with task.master.session() as master:
        for one in task.members:
            if one.condition is None:
                continue
            try:
                where.canonical(master, one.master, one.condition)
            except BadCondition as refused:
                raise ConditionBroken(
                    f"Snapshot {one.key}: {refused.message}", snapshot=one.key
                ) from None
