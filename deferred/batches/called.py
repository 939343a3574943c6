"""A transaction's call of a procedure, with its arguments, as catalogs store it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

#: The most arguments of a call: one SELECT makes them, and one reads them at the
#: destination.
MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument, as the database at the origin printed it."""

    #: by its full name; None if the origin did not give one (a bare NULL)
    type: str | None
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureCall:
    """A procedure that is to run at a destination, between row changes."""

    call_no: int
    #: of a registered routine, or of a procedure of the destination's database
    name: str
    arguments: tuple[Argument, ...]
    #: its origin ran it too, and has its changes
    ran_here: bool
    #: the queued JSON, if it is not a list of arguments; such a call cannot run
    malformed: str | None = None


def read(row: sa.Row[Any]) -> ProcedureCall:
    """Make a call from a catalog row with call_no, name, arguments and ran_here."""
    readable = _readable(row.arguments)
    return ProcedureCall(
        call_no=row.call_no,
        name=row.name,
        arguments=tuple(Argument(**one) for one in row.arguments) if readable else (),
        ran_here=row.ran_here,
        malformed=None if readable else json.dumps(row.arguments),
    )


def stored(arguments: Sequence[Argument]) -> list[dict[str, str | None]]:
    """Arguments in the form that a catalog stores."""
    return [{"type": one.type, "value": one.value} for one in arguments]


def stored_again(call: ProcedureCall) -> Any:
    """The arguments of a call that was read, as the catalog stored them."""
    return (
        stored(call.arguments) if call.malformed is None else json.loads(call.malformed)
    )


def _readable(arguments: object) -> bool:
    """Whether these are arguments; users can write anything to an origin's catalog."""
    return (
        isinstance(arguments, list)
        and len(arguments) <= MOST
        and all(
            isinstance(one, dict)
            and one.keys() == {"type", "value"}
            and all(isinstance(part, str | None) for part in one.values())
            for one in arguments
        )
    )
