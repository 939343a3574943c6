"""Performing a call: run the routine of that name, or the database's procedure.

The name comes from another site, and can run only routines and procedures that the
operator of this site installed or allowed. Arguments are bound, names are quoted, and
the types that the origin names are looked up in this database before they are put into
a statement.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import ColumnElement, Connection, Text, func, literal, select
from sqlalchemy.exc import DBAPIError

from deferred import sqlstate
from deferred.batches.called import Argument, ProcedureCall
from deferred.errors import (
    ProcedureEndedTransaction,
    ProcedureFailed,
    ProcedureNotAllowed,
    UnknownProcedure,
)
from deferred.procedures import allowed, guard, routines
from deferred.procedures.routines import Procedure
from sites import QualifiedName, faults, names
from sites.errors import SnaptideError
from sites.sessions.exchange import raw
from sites.sessions.settings import SETTINGS
from sites.transfer.values import from_text, unsized
from sites.writing import triggered
from sites.writing.triggered import USERS_SEARCH_PATH

_TYPE = sa.table("pg_type", sa.column("oid"), sa.column("typtype"), schema="pg_catalog")

#: The search path for names without a schema, and the mark that a procedure runs: if it
#: changes a snapshot of the destination's own, the next refresh settles that.
_MARK = ("snaptide.writing", "call")
_AT_WORK = dict([("search_path", USERS_SEARCH_PATH), _MARK])
_DONE = {"search_path": SETTINGS["search_path"], "snaptide.writing": ""}


def at_destination(
    connection: Connection, call: ProcedureCall, facts: Mapping[str, Any]
) -> None:
    """Run the procedure of a call from another site, if it may run here.

    Its changes in a replication group are those of the master where the transaction
    began, as long as that master ran the procedure too. If it did not, it has to get
    them: they begin here.

    Parameters:
        facts: of the transaction, as `provenance.facts` describes it.

    Raises:
        ProcedureNotAllowed: nothing of that name is registered or allowed here.
        ProcedureFailed: it failed; the caller rolls back.
        ProcedureEndedTransaction: it ended the transaction; a rollback is too late.
        sqlalchemy.exc.DBAPIError: for reasons that pass by themselves.
    """
    if call.malformed is not None:
        raise _failed(call, f"The arguments are malformed: {call.malformed[:200]}")
    faults.point("push.before_call")
    with _reported(call):
        run = _prepared(connection, call, anything=False)
        of_caller, while_it_runs = _transaction(call, facts)
        _set(connection, _AT_WORK | while_it_runs)
        with guard.noticed(connection, *_MARK):
            run()
        _set(connection, _DONE | of_caller)
    faults.point("push.after_call")


def _transaction(
    call: ProcedureCall, facts: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """What queues are told of the transaction: else, and while a procedure runs."""
    began_at = facts.get("sources")
    if call.ran_here or not began_at:
        return {}, {}
    begins_here = {"user": facts["user"], "sources": dict.fromkeys(began_at, "")}
    return triggered.described(facts), triggered.described(begins_here)


def here(connection: Connection, call: ProcedureCall) -> None:
    """Run the procedure of a call at the site itself; destinations run it too.

    Its changes are kept in the queues, but not sent. Call it in a savepoint.

    Raises:
        UnknownProcedure: there is nothing of that name.
        ProcedureEndedTransaction: part of the transaction is committed or undone.
        Exception: any error of the procedure.
    """
    run = _prepared(connection, call, anything=True)
    mark = ("snaptide.call", str(call.call_no))
    _set(connection, dict([mark]))
    with guard.noticed(connection, *mark):
        run()
    _set(connection, {"snaptide.call": ""})


def _prepared(
    connection: Connection, call: ProcedureCall, *, anything: bool
) -> Callable[[], None]:
    """A function that runs a call: a routine, or else a procedure of the database.

    Parameters:
        anything: also take a procedure that is not on the list of allowed ones.
    """
    routine = routines.REGISTRY.find(call.name)
    types = _types(connection, call.arguments)
    if routine is not None:
        values = _values(connection, call.arguments, types)
        return partial(_run_routine, connection, routine, values)
    procedure = names.parse(call.name)
    if not anything:
        allowed.refuse(connection, procedure)
    kinds = allowed.kinds(connection, procedure)
    if len(kinds) != 1:
        what = "both a procedure and a function" if kinds else "no procedure"
        raise UnknownProcedure(f"{procedure} is {what} here.", procedure=str(procedure))
    statement = _statement(connection, procedure, kinds[0], types)
    return partial(_run_statement, connection, statement, call.arguments)


def _run_routine(
    connection: Connection, routine: Procedure, values: Sequence[Any]
) -> None:
    with guard.kept_open(connection):
        routine(connection, *values)


def _run_statement(
    connection: Connection, statement: str, arguments: Sequence[Argument]
) -> None:
    values = tuple(one.value for one in arguments)
    connection.exec_driver_sql(statement, values).close()


def _statement(
    connection: Connection,
    procedure: QualifiedName,
    kind: str,
    types: Sequence[str | None],
) -> str:
    """The statement that runs a procedure of the database, for the driver."""
    named = names.identifier(procedure)
    driver = raw(connection)
    values = sql.SQL(", ").join(
        sql.SQL("CAST({} AS {})").format(
            sql.Placeholder(), sql.SQL(type_.replace("%", "%%"))
        )
        if type_
        else sql.Placeholder()
        for type_ in types
    )
    verb = "CALL" if kind == "p" else "SELECT"
    called = named.as_string(driver).replace("%", "%%")
    return f"{verb} {called}({values.as_string(driver)})"


def _types(connection: Connection, arguments: Sequence[Argument]) -> list[str | None]:
    """The types of arguments as this database prints them; None for an untyped one.

    Raises:
        UnknownProcedure: this database has no such type.
    """
    if not arguments:
        return []
    row = connection.execute(
        select(*(_known(one.type).label(f"t{n}") for n, one in enumerate(arguments)))
    ).one()
    for argument, known in zip(arguments, row, strict=True):
        if argument.type and known is None:
            raise UnknownProcedure(
                f"There is no type {argument.type} here.", type=argument.type
            )
    return [
        unsized(known) if one.type else None
        for one, known in zip(arguments, row, strict=True)
    ]


def _known(type_: str | None) -> ColumnElement[str | None]:
    """A type as this database prints it; NULL if it is unknown or a pseudo-type.

    A pseudo-type has no values. Some of them fail with errors like those of a broken
    server, and the push would retry forever.
    """
    return (
        select(func.format_type(_TYPE.c.oid, sa.null()))
        .where(_TYPE.c.oid == func.to_regtype(type_), _TYPE.c.typtype != "p")
        .scalar_subquery()
    )


def _values(
    connection: Connection, arguments: Sequence[Argument], types: Sequence[str | None]
) -> list[Any]:
    """The arguments as Python values, loaded as columns of their types are."""
    if not arguments:
        return []
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
    """Turn failures of a procedure into errors that name the call."""
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
    except ProcedureEndedTransaction as error:
        raise ProcedureEndedTransaction(
            f"Call {call.call_no}, {call.name}: {error.message}", call_no=call.call_no
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


def _set(connection: Connection, settings: Mapping[str, str]) -> None:
    """Set something for the rest of the transaction; a rollback takes it back."""
    connection.execute(
        select(*(func.set_config(*one, True) for one in settings.items()))
    )
