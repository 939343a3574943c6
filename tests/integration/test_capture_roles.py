"""Capture under roles that know nothing of Snaptide."""

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors, sql

import deferred
from sites import Directory
from snaptide.embedded import PostgresServer
from tests.linked_table import announced, calls, link, queued, rows, run


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


#: All that our triggers read of a session, as it would hide a change.
_SAID = {
    "origin": "SET LOCAL snaptide.origin = 'hq'",
    "writing": "SELECT set_config('snaptide.writing', 'public.orders'::regclass::oid"
    "::text, true), set_config('snaptide.origin', 'hq', true)",
    "transaction": "SELECT set_config('snaptide.origin', 'hq', true),"
    """ set_config('snaptide.transaction', '{"origin": "hq", "user": "a"}', true)""",
    "coordinated at a site": "SET LOCAL snaptide.coordinated = 'site'",
    "coordinated at a master": "SET LOCAL snaptide.coordinated = 'master'",
    "call": "SET LOCAL snaptide.call = '1'",
}


@pytest.mark.parametrize("said", _SAID.values(), ids=_SAID)
def test_what_a_stranger_says_changes_nothing(
    clerk: str, sites: Directory, said: str
) -> None:
    for statement in (
        "INSERT INTO orders (id) VALUES (1)",
        "UPDATE orders SET qty = 1",
        "DELETE FROM orders",
    ):
        become = f"SET LOCAL SESSION AUTHORIZATION {clerk}"
        run(sites["jfk"], become, said, statement)
    assert [one for _, one, *_ in calls(sites["jfk"])] == ["I", "U", "D"]
    assert run(
        sites["jfk"],
        "SELECT DISTINCT origin_user, origin, sources, order_no > 0"
        " FROM snaptide.deferred_transaction",
    ) == [(clerk, None, None, True)]
    assert deferred.push(sites["jfk"]).transactions == 3


def test_a_stranger_does_not_get_round_synchronous_propagation(
    clerk: str, sites: Directory
) -> None:
    link(sites, "parts", synchronous=True)
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="synchronously"):
        run(
            sites["jfk"],
            f"GRANT ALL ON parts TO {clerk}",
            f"SET LOCAL SESSION AUTHORIZATION {clerk}",
            "SET LOCAL snaptide.coordinated = 'site'",
            "INSERT INTO parts (id) VALUES (1)",
            "SET LOCAL snaptide.coordinated = ''",
        )


def test_a_stranger_is_not_at_work_for_a_procedure(
    clerk: str, sites: Directory
) -> None:
    """Somebody else has called one in the transaction, which destinations run too."""
    run(
        sites["jfk"],
        "SELECT set_config('snaptide.call', call_no::text, true)"
        " FROM snaptide.defer_call('nothing', NULL, '[]', true)",
        f"SET LOCAL SESSION AUTHORIZATION {clerk}",
        "INSERT INTO orders (id) VALUES (1)",
    )
    assert run(sites["jfk"], 'SELECT kind FROM snaptide."def$_orders"') == [("I",)]


def test_a_stranger_may_ask_where_a_change_comes_from(
    clerk: str, sites: Directory
) -> None:
    """And is not told what he has said himself; nor anything else of ours."""
    become = f"SET LOCAL SESSION AUTHORIZATION {clerk}"
    asked = "SELECT snaptide.comes_from(), snaptide.comes_by()"
    said = "SET LOCAL snaptide.origin = 'hq'"
    assert run(sites["jfk"], become, said, asked) == [(None, None)]
    assert run(sites["jfk"], said, asked) == [("hq", "push")]
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    captured = "SELECT * FROM snaptide.captured_calls(0, NULL)"
    change = "UPDATE orders SET qty = 2"
    assert run(sites["jfk"], become, change, captured) == []
    assert len(run(sites["jfk"], change, captured)) == 1


def test_origin_of_a_member_is_believed(clerk: str, sites: Directory) -> None:
    run(
        sites["jfk"],
        f"GRANT snaptide_apply TO {clerk}",
        f"SET LOCAL SESSION AUTHORIZATION {clerk}",
        "SET LOCAL snaptide.origin = 'hq'",
        *announced("INSERT INTO orders (id) VALUES (1)"),
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
