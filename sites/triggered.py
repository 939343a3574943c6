"""Writing a user's tables, so that the triggers on them find what they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select

from sites.site import SETTINGS

#: What a session has that says nothing else. Functions of PostgreSQL's own are
#: found before those of users all the same.
USERS_SEARCH_PATH = '"$user", public'


@contextmanager
def users_search_path(connection: Connection) -> Iterator[None]:
    """Let names without a schema mean what they mean to users, for a while.

    A user's trigger that names `audit` would otherwise stop every push that
    fires it. When a statement fails, the rollback of its savepoint or
    transaction takes the setting back.
    """
    _set(connection, USERS_SEARCH_PATH)
    yield
    _set(connection, SETTINGS["search_path"])


def _set(connection: Connection, path: str) -> None:
    connection.execute(select(func.set_config("search_path", path, True)))
