"""Statements that a session prepares once, and what it must not keep for long."""

from sqlalchemy import Connection, text

import deferred
from deferred.queues import define
from sites import Directory, Site
from sites.sessions.prepared import Prepared
from tests.linked_table import link, rows, run
from tests.sent import sent


def test_a_session_prepares_what_asks_for_it_once(sites: Directory) -> None:
    with sites["hq"].session() as connection:
        once = Prepared(text("SELECT 'asked for'"))
        for _ in range(3):
            assert once.run(connection).scalar() == "asked for"
            assert connection.scalar(text("SELECT 'not asked for'")) is not None
            connection.commit()
        assert _prepared(connection) == ["SELECT 'asked for'"]


def test_another_queue_of_the_same_name_is_sent_as_it_is(sites: Directory) -> None:
    """The text of what is sent would be the same, but not the types of its columns."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "orders", "id int PRIMARY KEY, what int", with_log=False)
    for n in range(3):
        run(jfk, f"INSERT INTO orders VALUES ({n}, {n})")
        deferred.push(jfk)
    # A session forgets what it prepared when it drops something, or rolls back.
    with jfk.session() as origin:
        before = _prepared(origin)
        origin.commit()
        with jfk.transaction() as connection:
            define.drop_queue(connection, "orders")
            connection.execute(
                text('DROP TABLE public.orders, snaptide."extra$_orders"')
            )
        with hq.transaction() as connection:
            connection.execute(text("DROP TABLE public.orders"))
        link(sites, "orders", "id int PRIMARY KEY, what text", with_log=False)
        run(jfk, "INSERT INTO orders VALUES (1, 'one')")
    deferred.push(jfk)
    assert any("def$_orders" in one for one in before)
    assert rows(hq) == [(1, "one")]


def test_a_transaction_in_two_phases_is_rolled_back(hq: Site) -> None:
    """If the driver has prepared a statement itself, it then drops them all."""
    once = Prepared(text("SELECT 'asked for'"))
    run(hq, "CREATE TABLE public.t (n int)")
    with hq.session() as connection:
        branch = connection.begin_twophase("branch")
        once.run(connection)
        many = text("INSERT INTO public.t VALUES (:n)")
        connection.execute(many, [{"n": 1}, {"n": 2}])
        once.hold(connection)
        branch.rollback()
        with sent(hq) as statements:
            assert once.run(connection).scalar() == "asked for"
        assert len(statements) == 1


def test_what_a_branch_holds_is_prepared_with_it(hq: Site) -> None:
    add = Prepared(text("INSERT INTO public.t VALUES (1)"))
    run(hq, "CREATE TABLE public.t (n int)")
    with hq.session() as connection:
        branch = connection.begin_twophase("branch")
        add.hold(connection)
        branch.prepare()
        branch.commit()
    assert run(hq, "TABLE public.t") == [(1,)]


def _prepared(connection: Connection) -> list[str]:
    found = connection.scalars(text("SELECT statement FROM pg_prepared_statements"))
    return list(found)
