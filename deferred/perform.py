"""Performing a call: the routine of that name, or the procedure of the database.

The name comes from another site, and stands for nothing but what the operator of this
one installed or allowed. Arguments are bound, names are quoted, and the types that the
origin names are looked up in this database before they stand in a statement.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection, Text, func, literal, select
from sqlalchemy.exc import DBAPIError

from deferred import allowed, guard, routines, sqlstate
from deferred.errors import ProcedureFailed, ProcedureNotAllowed, UnknownProcedure
from deferred.procedure_call import Argument, ProcedureCall
from sites import QualifiedName, faults, names
from sites.errors import SnaptideError
from sites.transport import raw
from sites.triggered import users_search_path
from sites.values import from_text, unsized

_KINDS = sa.text(
    "SELECT DISTINCT p.prokind FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = :schema AND p.proname = :name AND p.prokind IN ('p', 'f')"
)


def at_destination(connection: Connection, call: ProcedureCall) -> None:
    """Run what a call from another site names, if it may run here.

    Raises:
        ProcedureNotAllowed: nothing of that name is registered or allowed here.
        ProcedureFailed: it did not end well; the caller rolls back.
        sqlalchemy.exc.DBAPIError: for reasons that pass by themselves.
    """
    faults.point("push.before_call")
    # What it changes in a snapshot of this site's own, the next refresh settles.
    _set(connection, "snaptide.writing", "call")
    with _reported(call):
        _run(connection, call.name, call.arguments, allowed_only=True)
    _set(connection, "snaptide.writing", "")
    faults.point("push.after_call")


def here(connection: Connection, call: ProcedureCall) -> None:
    """Run at the site itself what a call names; destinations do too.

    Its changes are kept in the queues, but not sent. Call it in a savepoint.

    Raises:
        UnknownProcedure: there is nothing of that name.
        Exception: whatever the procedure raises.
    """
    _set(connection, "snaptide.call", str(call.call_no))
    _run(connection, call.name, call.arguments, allowed_only=False)
    _set(connection, "snaptide.call", "")


def _run(
    connection: Connection,
    name: str,
    arguments: Sequence[Argument],
    *,
    allowed_only: bool,
) -> None:
    routine = routines.find(name)
    if routine is not None:
        values = _values(connection, arguments)
        with _searching(connection, ours=allowed_only), guard.kept_open(connection):
            routine(connection, *values)
        return
    procedure = names.parse(name)
    if allowed_only and not allowed.is_allowed(connection, procedure):
        raise ProcedureNotAllowed(f"Nothing named {name} may run here.", procedure=name)
    statement = _statement(connection, procedure, arguments)
    with _searching(connection, ours=allowed_only):
        connection.exec_driver_sql(
            statement, tuple(one.value for one in arguments)
        ).close()


def _searching(connection: Connection, *, ours: bool) -> Any:
    """Names without a schema mean what they mean to users, on a connection of ours."""
    return users_search_path(connection) if ours else nullcontext()


def _statement(
    connection: Connection, procedure: QualifiedName, arguments: Sequence[Argument]
) -> str:
    """The statement that runs a procedure of the database, for the driver."""
    kinds = connection.scalars(
        _KINDS, {"schema": procedure.schema, "name": procedure.name}
    ).all()
    if len(kinds) != 1:
        what = "both a procedure and a function" if kinds else "no procedure"
        raise UnknownProcedure(f"{procedure} is {what} here.", procedure=str(procedure))
    named = sql.Identifier(procedure.schema, procedure.name)
    driver = raw(connection)
    values = sql.SQL(", ").join(
        sql.SQL("CAST({} AS {})").format(
            sql.Placeholder(), sql.SQL(type_.replace("%", "%%"))
        )
        if type_
        else sql.Placeholder()
        for type_ in _types(connection, arguments)
    )
    verb = "CALL" if kinds[0] == "p" else "SELECT"
    called = named.as_string(driver).replace("%", "%%")
    return f"{verb} {called}({values.as_string(driver)})"


def _types(connection: Connection, arguments: Sequence[Argument]) -> list[str | None]:
    """The types of arguments as this database prints them; None where there is none.

    Raises:
        UnknownProcedure: this database has no such type.
    """
    found = []
    for argument in arguments:
        known = argument.type and connection.scalar(
            select(func.format_type(func.to_regtype(argument.type), sa.null()))
        )
        if argument.type and (known is None or known == "-"):
            raise UnknownProcedure(
                f"There is no type {argument.type} here.", type=argument.type
            )
        found.append(unsized(known) if known else None)
    return found


def _values(connection: Connection, arguments: Sequence[Argument]) -> list[Any]:
    """Arguments as Python has them, as rows of their types are loaded."""
    if not arguments:
        return []
    types = _types(connection, arguments)
    wanted = [
        from_text(literal(one.value, Text), type_) if type_ else sa.null()
        for one, type_ in zip(arguments, types, strict=True)
    ]
    row = connection.execute(
        select(*(one.label(f"a{n}") for n, one in enumerate(wanted)))
    ).one()
    return list(row)


@contextmanager
def _reported(call: ProcedureCall) -> Iterator[None]:
    """Let all that goes wrong in a procedure be told as one error."""
    try:
        yield
    except DBAPIError as error:
        if sqlstate.passes(error):
            raise
        raise _failed(
            call, f"{sqlstate.message(error)} ({sqlstate.of(error)})"
        ) from error
    except ProcedureNotAllowed as error:
        raise ProcedureNotAllowed(
            f"Call {call.call_no}: {error.message}", call_no=call.call_no
        ) from error
    except SnaptideError as error:
        raise _failed(call, error.message) from error
    except Exception as error:  # whatever the user's code raises
        raised = "".join(traceback.format_exception_only(error)).strip()
        raise _failed(call, raised) from error


def _failed(call: ProcedureCall, reason: str) -> ProcedureFailed:
    return ProcedureFailed(
        f"Call {call.call_no}, {call.name}: {reason}", call_no=call.call_no
    )


def _set(connection: Connection, name: str, value: str) -> None:
    connection.execute(select(func.set_config(name, value, True)))
