"""The log of actions: who did what in the console, when, and what came of it.

It is a table at the site where the action takes place: several consoles share it, it is
backed up with what it speaks of, and nothing is done at a site that cannot note it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy import func, select

from sites import Site
from sites.sessions import identity
from snaptide.asking import as_told, asking
from snaptide.catalog import operator_action
from snaptide.errors import BadArgument
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
    id: int
    begun_at: datetime
    operator: str
    role: str
    command: str
    outcome: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in the log of all sites: an action of it, or a moment."""

    moment: datetime
    #: the action's site and number; None if the place is between actions
    action: tuple[str, int] | None = None

    def __str__(self) -> str:
        return "/".join([self.moment.isoformat(), *map(str, self.action or ())])

    @classmethod
    def of(cls, text: str) -> Place:
        """Read a place as it is printed.

        Raises:
            BadArgument: it is none.
        """
        moment, *action = text.split("/")
        wrong = BadArgument(f"{text[:60]!r} is not MOMENT or MOMENT/SITE/ID.")
        try:
            at = datetime.fromisoformat(moment).astimezone(UTC)
            if not action:
                return cls(moment=at)
            site, number = action
            place = cls(moment=at, action=(site, int(number)))
        except (ValueError, OverflowError):
            raise wrong from None
        if int(number) >= 2**63:
            raise wrong
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the log of some sites, the latest action first."""

    actions: Sequence[NotedAction]
    #: how many there are at these sites
    count: int
    #: how many are older than those of this part
    older: int

    def first(self, number: int) -> Part:
        """The part without those that come after so many."""
        rest = len(self.actions[number:])
        return replace(self, actions=self.actions[:number], older=self.older + rest)

    @property
    def last(self) -> Place | None:
        """Where the next part goes on; None if there is none."""
        if not self.older or not self.actions:
            return None
        last = self.actions[-1]
        return Place(moment=last.begun_at, action=(last.site, last.id))


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


def together(parts: Iterable[Part], most: int) -> Part:
    """The part of all sites that parts of each of them make."""
    each = [*parts]
    found = [action for part in each for action in part.actions]
    # Of one moment, those of the first site come first, as `_before` has it.
    found.sort(key=lambda action: action.site)
    found.sort(key=lambda action: action.begun_at, reverse=True)
    every = Part(
        actions=found,
        count=sum(part.count for part in each),
        older=sum(part.older for part in each),
    )
    return every.first(most)


def actions_of(site: Site, most: int, before: Place | None = None) -> Part:
    """The latest actions at a site.

    Parameters:
        before: only those that are older than this place of the log of all sites.

    Raises:
        SiteUnreachable, NotPermitted, DatabaseError: they cannot be read.
    """
    at = operator_action.c
    chosen = sa.true() if before is None else _before(site.name, before)
    wanted = select(operator_action).where(chosen)
    wanted = wanted.order_by(at.begun_at.desc(), at.id.desc()).limit(most)
    counted = select(func.count(), func.count().filter(chosen))
    with asking(site) as connection:
        found = [
            NotedAction(site=site.name, **row._mapping)
            for row in connection.execute(wanted)
        ]
        count, matching = connection.execute(counted.select_from(operator_action)).one()
    return Part(actions=found, count=count, older=matching - len(found))


def _before(site: str, place: Place) -> sa.ColumnElement[bool]:
    at = operator_action.c
    earlier = at.begun_at < place.moment
    if place.action is None or site < place.action[0]:
        return earlier
    same = at.begun_at == place.moment
    if site == place.action[0]:
        same = sa.and_(same, at.id < place.action[1])
    return sa.or_(earlier, same)


def _end(site: Site, number: int | None, note: Note) -> None:
    ended = (
        sa.update(operator_action)
        .where(operator_action.c.id == number)
        .values(outcome=note.outcome[:LONGEST], ended_at=func.clock_timestamp())
    )
    with identity.initialised(site) as connection:
        connection.execute(ended)
