"""Settings for triggers when Snaptide writes users' tables on behalf of other sites."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, bindparam, case, func, select

from sites.sessions.prepared import Prepared
from sites.sessions.settings import MEANINGS, SETTINGS

#: The default search path of a session. PostgreSQL's own functions are found before
#: those of users all the same.
USERS_SEARCH_PATH = '"$user", public'


def brought(origin: str, facts: Mapping[str, Any]) -> list[ColumnElement[str]]:
    """Settings that tell our triggers from which site a transaction's changes come.

    The caller selects them. They last until the end of the transaction, or until `own`.

    Parameters:
        origin: the site that sent the changes.
        facts: facts of their transaction for the queues here.
    """
    return _select(as_brought(origin, facts))


def as_brought(origin: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """The same settings by name, for sessions that Snaptide did not open."""
    return {"snaptide.origin": origin, **described(facts)}


def described(facts: Mapping[str, Any]) -> dict[str, str]:
    """The setting that describes a transaction to the queues here."""
    return {"snaptide.transaction": json.dumps(facts)}


def own() -> list[ColumnElement[str]]:
    """Settings that mark later changes of the transaction as the session's own."""
    return _select(_whose("", ""))


def _whose(origin: str, transaction: str) -> dict[str, str]:
    return {"snaptide.origin": origin, "snaptide.transaction": transaction}


def _room(name: str) -> str:
    return name.replace(".", "_")


#: The same as `brought`, for a statement that is built once and gets `values`.
BROUGHT = [
    func.set_config(name, bindparam(_room(name), "", Text), True)
    for name in _whose("", "")
]


def values(settings: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a statement with `BROUGHT`."""
    return {_room(name): value for name, value in settings.items()}


def _select(settings: Mapping[str, str]) -> list[ColumnElement[str]]:
    return [func.set_config(name, value, True) for name, value in settings.items()]


@contextmanager
def users_search_path(connection: Connection) -> Iterator[None]:
    """Resolve names without a schema as for users, during the block.

    A user's trigger that names `audit` would otherwise stop every push that
    fires it. When a statement fails, the rollback of its savepoint or
    transaction takes the setting back. What a trigger has set does not hold after the
    block.
    """
    _set(connection, USERS_SEARCH_PATH)
    yield
    _OURS.hold(connection)


@contextmanager
def our_search_path(connection: Connection) -> Iterator[None]:
    """Run our statements on a program's connection as in a session of ours.

    If the block fails, the transaction is as it was before it; or, if PostgreSQL had
    to give up a savepoint within the block, the caller can only roll it back.
    """
    theirs = connection.scalar(select(func.current_setting("search_path")))
    savepoint = connection.begin_nested()
    _set(connection, SETTINGS["search_path"])
    try:
        yield
    except BaseException:
        if connection.get_nested_transaction() is savepoint:
            savepoint.rollback()
        raise
    _set(connection, str(theirs))
    savepoint.commit()


def _set(connection: Connection, path: str) -> None:
    _SEARCH.hold(connection, path=path)


_SEARCH = Prepared(
    select(func.set_config("search_path", bindparam("path", type_=Text), True))
)


_ROLE = "session_replication_role"
#: Only a superuser may set it, even to what it is.
_FIRES_TRIGGERS = case(
    (
        func.current_setting(_ROLE) == "replica",
        func.set_config(_ROLE, "origin", True),
    )
)

#: The rest of a transaction reads and writes as our sessions do.
_OURS = Prepared(
    select(
        func.set_config("search_path", SETTINGS["search_path"], True),
        *(func.set_config(name, value, True) for name, value in MEANINGS.items()),
        _FIRES_TRIGGERS,
    )
)
