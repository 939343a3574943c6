"""Tables that the login of a grant can lock: those that it may delete rows from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

import masters
from sites import Directory, Site
from sites.tables import locks
from snaptide.embedded import PostgresServer
from tests.fix_worlds import prepared_once
from tests.granted import Session, login, session_of, stores
from tests.linked_table import run, scalar

#: Tables of ours that a refresh deletes rows from, and a push besides.
READS = {"snaptide.registered_snapshot", "snaptide.error_footprint"}
PUSHES = READS | {"snaptide.resolution_record"}


@prepared_once("hq", "jfk")
def sales(sites: Directory) -> None:
    """Sales of two stores."""
    stores(sites["hq"])


@pytest.fixture
def grant(sales: Directory, server: PostgresServer) -> Iterator[Callable[..., Session]]:
    """A function that grants sales of store 3 to a login, and returns its session."""
    hq, opened = sales["hq"], list[Session]()
    with login(server, hq) as name:

        def grant(*, updatable: bool, columns: list[str] | None = None) -> Session:
            if updatable:
                run(hq, f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {name}')
            masters.create_publication(
                hq,
                "sales",
                ["sale"],
                where={"sale": "store_id = :store"},
                columns={"sale": columns} if columns else None,
            )
            masters.grant(
                hq,
                "sales",
                "jfk",
                login=name,
                parameters={"store": "3"},
                updatable=updatable,
            )
            opened.append(session_of(hq, name))
            return opened[-1]

        yield grant
        for session in opened:
            session.close()


@pytest.mark.parametrize("columns", [None, ["id", "store_id"]])
@pytest.mark.parametrize(
    ("updatable", "lockable"), [(False, READS), (True, PUSHES | {"public.sale"})]
)
def test_a_login_can_lock_tables_from_which_it_deletes(
    sales: Directory,
    grant: Callable[..., Session],
    updatable: bool,
    columns: list[str] | None,
    lockable: set[str],
) -> None:
    """The page for users names all of them."""
    session = grant(updatable=updatable, columns=columns)
    # SHARE is the weakest of those that keep others from changing rows.
    for mode in ("ACCESS EXCLUSIVE", "SHARE"):
        assert set(_locked(sales["hq"], session, mode)) == lockable


def _locked(hq: Site, session: Session, mode: str) -> Iterator[str]:
    tables = run(
        hq,
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
        " WHERE schemaname IN ('public', 'snaptide')",
    )
    for (table,) in tables:
        try:
            session.execute(f"LOCK TABLE {table} IN {mode} MODE".encode())
        except psycopg.errors.InsufficientPrivilege:
            continue
        else:
            yield str(table)
        finally:
            session.rollback()


def test_an_operator_ends_a_lock(
    sales: Directory, grant: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No timeout of the role does: the session sets its own.

    PostgreSQL 18 locks a table to take rights on it away.
    """
    hq = sales["hq"]
    name = grant(updatable=True).info.user
    run(hq, f"ALTER ROLE {name} SET idle_in_transaction_session_timeout = 1")
    session = session_of(hq, name)
    session.execute("SET idle_in_transaction_session_timeout = 0")
    session.execute("LOCK TABLE public.sale IN ACCESS EXCLUSIVE MODE")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        run(hq, "SET LOCAL lock_timeout = 50", "UPDATE sale SET cost = 0")
    monkeypatch.setattr(locks, "ATTEMPTS", 1)
    with suppress(psycopg.errors.LockNotAvailable):
        masters.revoke(hq, "sales", "jfk")
    run(hq, f"ALTER ROLE {name} NOLOGIN")
    ended = run(
        hq,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        f" WHERE usename = '{name}'",
    )
    assert ended[0] == (True,)
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        session_of(hq, name)
    session.close()
    if masters.show_publication(hq, "sales").grants:
        masters.revoke(hq, "sales", "jfk")
    may = f"SELECT has_table_privilege('{name}', 'public.sale', 'DELETE')"
    run(hq, "UPDATE sale SET cost = 0")
    assert scalar(hq, may) is False
