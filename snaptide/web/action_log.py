"""The log of actions: who did what in the console, when, and what came of it.

It is a table at the site where the action takes place: several consoles share it, it is
backed up with what it speaks of, and nothing is done at a site that cannot note it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import func, select

from sites import Site, identity
from snaptide.asking import as_told, asking
from snaptide.catalog import operator_action
from snaptide.web.users import User

#: A command or outcome is cut after so many characters.
LONGEST = 8_000


@dataclass(slots=True)
class Note:
    """The note of an action that is being done."""

    outcome: str = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedAction:
    """An action of the log."""

    site: str
    begun_at: datetime
    operator: str
    role: str
    command: str
    outcome: str | None
    ended_at: datetime | None


@contextmanager
def noted(site: Site, user: User, command: str) -> Iterator[Note]:
    """Note an action before it is done, and its outcome afterwards.

    Writes operator_action, in transactions of its own. An error of the block becomes
    the outcome.

    Parameters:
        command: the command line that does the same.
    """
    new = sa.insert(operator_action).values(
        operator=user.name, role=user.role.value, command=command[:LONGEST]
    )
    with identity.initialised(site) as connection:
        number = connection.scalar(new.returning(operator_action.c.id))
    note = Note()
    try:
        yield note
    except Exception as error:
        told = as_told(error)
        note.outcome = f"{told.code} {told.message}"
        raise
    finally:
        _end(site, number, note)


def actions_of(site: Site, most: int) -> Sequence[NotedAction]:
    """The latest actions at a site, the latest first."""
    columns = [c for c in operator_action.c if c.name != "id"]
    wanted = select(*columns).order_by(sa.desc("begun_at"), sa.desc("id")).limit(most)
    with asking(site) as connection:
        return [
            NotedAction(site=site.name, **row._mapping)
            for row in connection.execute(wanted)
        ]


def _end(site: Site, number: int | None, note: Note) -> None:
    ended = (
        sa.update(operator_action)
        .where(operator_action.c.id == number)
        .values(outcome=note.outcome[:LONGEST], ended_at=func.clock_timestamp())
    )
    with identity.initialised(site) as connection:
        connection.execute(ended)
