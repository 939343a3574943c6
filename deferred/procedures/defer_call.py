"""Calling a procedure at other sites, with the transaction that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, Text, func, select
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from deferred.batches.called import Argument, ProcedureCall, stored
from deferred.errors import NoDestination
from deferred.procedures import perform


def call(
    connection: Connection,
    name: str,
    args: Sequence[object] = (),
    *,
    destinations: Sequence[str] | None = None,
    here: bool = False,
) -> int:
    """Have a procedure run at other sites (Oracle: DBMS_DEFER.CALL).

    The call is queued with the transaction's row changes, in its place among them.
    It commits with them, and a push applies all of them in order, in one transaction
    at each destination.

    Parameters:
        connection: to the site, in the transaction; the caller commits.
        name: of a routine that destinations have registered, or of a procedure or
            function that they allow.
        args: values, or SQL expressions, which this database evaluates now; give a type
            with a cast (`sa.cast("2013-01-01", sa.Date)`).
        destinations: masters that this site's queues go to; all when not given.
        here: run it at this site too, now. Its changes to snapshots are not sent to
            these destinations, because they run the procedure themselves. A master
            of a replication group that does not run it gets its changes from the
            destination.

    Returns:
        The number of the call, unique at the site.

    Raises:
        TypeError: `args` or `destinations` is a text or a mapping, not a list.
        NoDestination: there is none, one is unknown, or one is named twice.
        UnknownProcedure: it is to run here, but this site has nothing of that name.
        sqlalchemy.exc.DBAPIError: an argument cannot be carried; the transaction is a
            coordinated one, or the call is made by a procedure that was called here.
    """
    _refuse_single(args=args, destinations=destinations)
    arguments = _arguments(connection, args)
    with connection.begin_nested():
        number = _queue(connection, name, arguments, destinations, here=here)
        if here:
            perform.here(
                connection,
                ProcedureCall(
                    call_no=number, name=name, arguments=arguments, ran_here=True
                ),
            )
    return number


def _refuse_single(**lists: object) -> None:
    """Refuse a text or a mapping, which would be read as a list of letters or keys."""
    for name, given in lists.items():
        if isinstance(given, str | bytes | Mapping):
            raise TypeError(f"{name} takes a list, not {type(given).__name__}.")


def _arguments(connection: Connection, args: Sequence[object]) -> tuple[Argument, ...]:
    """The arguments as the database prints them, with the types that it gives them."""
    if not args:
        return ()
    row = connection.execute(
        select(*(_argument(one).label(f"a{n}") for n, one in enumerate(args)))
    ).one()
    return tuple(Argument(**one) for one in row)


def _argument(value: object) -> ColumnElement[Any]:
    if value is None:
        return sa.literal({"type": None, "value": None}, JSONB)
    return func.snaptide.argument(_expression(value), type_=JSONB)


def _expression(value: object) -> Any:
    if isinstance(value, sa.ClauseElement):
        return value
    if isinstance(value, str):
        return sa.cast(sa.literal(value), Text)
    return sa.literal(value, JSONB) if isinstance(value, dict) else sa.literal(value)


def _queue(
    connection: Connection,
    name: str,
    arguments: Sequence[Argument],
    destinations: Sequence[str] | None,
    *,
    here: bool,
) -> int:
    wanted = None if destinations is None else list(destinations)
    queued = func.snaptide.defer_call(
        sa.literal(name, Text),
        sa.cast(wanted, ARRAY(Text)),
        sa.literal(stored(arguments), JSONB),
        here,
    ).table_valued(sa.column("call_no", BigInteger), sa.column("known", ARRAY(Text)))
    row = connection.execute(select(queued)).one()
    if row.call_no is not None:
        return int(row.call_no)
    known = ", ".join(row.known or []) or "none"
    asked = ", ".join(wanted or []) or "nowhere"
    raise NoDestination(
        f"{name} cannot be deferred to {asked}. This site's destinations are: {known}.",
        procedure=name,
        known=row.known or [],
    )
