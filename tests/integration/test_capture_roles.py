"""Capture under roles that know nothing of Snaptide."""

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors, sql

import deferred
from sites import Directory
from snaptide.embedded import PostgresServer
from tests.linked_table import calls, link, queued, rows, run


@pytest.fixture
def clerk(server: PostgresServer, sites: Directory) -> Iterator[str]:
    """A role that may write orders at jfk, and nothing else."""
    link(sites)
    name = f"clerk_{secrets.token_hex(4)}"
    run(
        sites["jfk"],
        f"CREATE ROLE {name}",
        f"GRANT INSERT, UPDATE, DELETE, SELECT ON orders TO {name}",
    )
    yield name
    run(sites["jfk"], f"DROP OWNED BY {name}")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_role_without_rights_on_our_schema_can_write(
    clerk: str, sites: Directory
) -> None:
    become = f"SET LOCAL SESSION AUTHORIZATION {clerk}"
    run(sites["jfk"], become, "INSERT INTO orders (id, qty) VALUES (1, 1), (2, 2)")
    run(
        sites["jfk"],
        become,
        "UPDATE orders SET qty = 3 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
    )
    with pytest.raises(errors.InsufficientPrivilege):
        run(sites["jfk"], become, 'SELECT * FROM snaptide."def$_orders"')
    assert run(sites["jfk"], "SELECT origin_user FROM snaptide.deftran") == [
        (clerk,),
        (clerk,),
    ]
    deferred.push(sites["jfk"])
    assert rows(sites["hq"]) == rows(sites["jfk"])


def test_role_without_rights_can_write_a_master_with_a_log(
    clerk: str, sites: Directory
) -> None:
    run(
        sites["hq"],
        f"GRANT INSERT ON orders TO {clerk}",
        f"SET LOCAL SESSION AUTHORIZATION {clerk}",
        "INSERT INTO orders (id) VALUES (1)",
    )
    assert run(sites["hq"], 'SELECT kind, k1 FROM snaptide."mlog$_orders"') == [
        ("I", 1)
    ]
    run(sites["hq"], f"DROP OWNED BY {clerk}")


def test_origin_of_a_stranger_is_not_believed(clerk: str, sites: Directory) -> None:
    run(
        sites["jfk"],
        f"SET LOCAL SESSION AUTHORIZATION {clerk}",
        "SET LOCAL snaptide.origin = 'hq'",
        "INSERT INTO orders (id) VALUES (1)",
    )
    assert queued(sites["jfk"]) == 1


def test_origin_of_a_member_is_believed(clerk: str, sites: Directory) -> None:
    run(
        sites["jfk"],
        f"GRANT snaptide_apply TO {clerk}",
        f"SET LOCAL SESSION AUTHORIZATION {clerk}",
        "SET LOCAL snaptide.origin = 'hq'",
        "INSERT INTO orders (id) VALUES (1)",
    )
    assert queued(sites["jfk"]) == 0


def test_search_path_of_the_user_does_not_matter(sites: Directory) -> None:
    """A function or table of the user's cannot stand in for the system's."""
    link(sites)
    run(
        sites["jfk"],
        "CREATE FUNCTION public.pg_current_xact_id() RETURNS xid8"
        " LANGUAGE sql AS $$ SELECT '1'::xid8 $$",
        "SET LOCAL search_path = public, pg_catalog",
        "INSERT INTO orders (id) VALUES (1)",
    )
    assert [call[1] for call in calls(sites["jfk"])] == ["I"]
    assert run(sites["jfk"], "SELECT xid = '1'::xid8 FROM snaptide.delivery") == []
    assert run(
        sites["jfk"], "SELECT xid = '1'::xid8 FROM snaptide.deferred_transaction"
    ) == [(False,)]
