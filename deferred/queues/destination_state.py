"""The states of a destination: why nothing is pushed to it, and since when.

A destination without a state is open. An operator, a join and a budget close it without
knowing of each other: each has a state of its own, so that it does not become open
before all of them are over. Only this module writes the table `destination_state`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import destination, destination_state
from deferred.errors import DestinationDisabled, DestinationInvalid, DestinationJoins
from sites.errors import SnaptideError

#: `disabled` by an operator or an error action; `joining` a group: it does not have
#: the rows yet; `invalid`: it was over its budget; `excused`: an operator has made it
#: valid, and its budget does not count until the queue is within it.
State = Literal["disabled", "excused", "invalid", "joining"]

_CLOSED: dict[State, type[SnaptideError]] = {
    "disabled": DestinationDisabled,
    "invalid": DestinationInvalid,
    "joining": DestinationJoins,
}

_at = destination_state.c


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationState:
    """What is true of a destination that is not simply open."""

    #: `disabled`, `joining` and `invalid` stop pushes; `excused` stops the budget
    state: State
    since: datetime
    #: why it is closed; an excused one keeps the reason for which it was invalid
    reason: str

    def __str__(self) -> str:
        moment = f"{self.since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.state} since {moment}: {self.reason}"


def is_open() -> ColumnElement[bool]:
    """Whether pushes to a row of the table `destination` may run."""
    return sa.not_(sa.exists().where(_of_destination(), _at.state != "excused"))


def has_any() -> ColumnElement[bool]:
    """Whether a row of the table `destination` has a state."""
    return sa.exists().where(_of_destination())


def names_of_states() -> ColumnElement[list[str]]:
    """The states of a row of the table `destination`, as an array."""
    return func.array(select(_at.state).where(_of_destination()).scalar_subquery())


def states_of(connection: Connection, name: str) -> list[DestinationState]:
    """The states of a destination, in alphabetical order; none if it is open."""
    wanted = select(_at.state, _at.since, _at.reason).where(_at.destination == name)
    rows = connection.execute(wanted.order_by(_at.state, _at.reason))
    return [DestinationState(**row._mapping) for row in rows]


def refuse_closed(connection: Connection, name: str) -> None:
    """Make sure that pushes to a destination may run.

    Raises:
        DestinationDisabled, DestinationInvalid, DestinationJoins.
    """
    for one in states_of(connection, name):
        if one.state in _CLOSED:
            raise _CLOSED[one.state](f"{name} has been {one}", destination=name)


def disable(connection: Connection, reason: str, name: str | None = None) -> None:
    """Stop pushes to one destination, or to all, until they are enabled.

    The reason stays as it is where they are stopped already.
    """
    mine = sa.true() if name is None else destination.c.name == name
    _add(connection, mine, "disabled", reason)


def enable(connection: Connection, name: str) -> None:
    """End what `disable` has begun; other states stay."""
    _remove(connection, _at.state == "disabled", _at.destination == name)


def set_joining(
    connection: Connection, group_id: uuid.UUID, group: str, joining: Collection[str]
) -> None:
    """Stop pushes to masters that join a group, until they have its rows.

    Parameters:
        joining: all masters that join it now; for others, the state ends.
    """
    _remove(
        connection,
        _at.state == "joining",
        _at.group_id == group_id,
        _at.destination.not_in(joining),
    )
    mine = destination.c.name.in_(joining)
    _add(connection, mine, "joining", f"group {group}", group_id)


def invalidate(connection: Connection, name: str, reason: str) -> None:
    """Stop pushes to a destination that is over its budget, unless it is excused."""
    _add(connection, destination.c.name == name, "invalid", reason)


def validate(connection: Connection, name: str) -> None:
    """Excuse an invalid destination from its budget."""
    connection.execute(
        sa.update(destination_state)
        .where(_at.destination == name, _at.state == "invalid")
        .values(state="excused", since=func.now())
    )


def end_excuse(connection: Connection, name: str) -> None:
    """Let the budget of a destination count again."""
    _remove(connection, _at.state == "excused", _at.destination == name)


def _of_destination() -> ColumnElement[bool]:
    return _at.destination == destination.c.name


def _add(
    connection: Connection,
    mine: ColumnElement[bool],
    state: State,
    reason: str,
    group_id: uuid.UUID | None = None,
) -> None:
    values = {
        "destination": destination.c.name,
        "state": literal(state),
        "reason": literal(reason),
        "group_id": literal(group_id, sa.Uuid),
    }
    connection.execute(
        insert(destination_state)
        .from_select([*values], select(*values.values()).where(mine))
        .on_conflict_do_nothing()
    )


def _remove(connection: Connection, *which: ColumnElement[bool]) -> None:
    connection.execute(sa.delete(destination_state).where(*which))
