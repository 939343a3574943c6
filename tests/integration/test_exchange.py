"""Statements that share a round trip, and those that wait for the next one."""

from collections.abc import Callable
from contextlib import suppress

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from tenacity import stop_after_delay, wait_fixed

from sites import Directory, Site
from sites.retry import until
from sites.sessions.exchange import Bound, exchange, hold, raw, send
from sites.sessions.prepared import Prepared
from sites.sessions.site import autocommit
from tests.linked_table import rows, run
from tests.sent import sent

_ADD = Prepared(
    sa.insert(sa.table("done", sa.column("n", sa.Integer), schema="public")).values(
        n=sa.bindparam("n", 0, sa.Integer)
    )
)

_ENDED = b"SELECT pg_terminate_backend(pg_backend_pid())"


@pytest.fixture
def hq(sites: Directory) -> Site:
    run(sites["hq"], "CREATE TABLE done (place serial, n int CHECK (n < 10))")
    return sites["hq"]


def _done(site: Site) -> list[int]:
    return [n for _, n in rows(site, "done")]


def test_several_are_answered_in_their_order(hq: Site) -> None:
    with hq.transaction() as connection:
        one, two = exchange(
            connection, Bound(b"SELECT $1::int AS n", [1]), Bound(b"SELECT 'two' AS t")
        )
    assert (one.one().n, two.scalar()) == (1, "two")


def test_it_begins_the_transaction_that_was_asked_for(hq: Site) -> None:
    with hq.session() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")
        level = Bound(b"SHOW transaction_isolation")
        assert exchange(connection, level)[0].scalar() == "repeatable read"
        assert connection.in_transaction()
        connection.rollback()


@pytest.mark.parametrize("ends", ["exchange", "statement", "commit"])
def test_what_is_held_comes_before_what_follows(hq: Site, ends: str) -> None:
    with hq.transaction() as connection:
        _ADD.hold(connection, n=1)
        _ADD.hold(connection, n=2)
        if ends == "exchange":
            _ADD.run(connection, n=3)
        elif ends == "statement":
            connection.execute(text("INSERT INTO public.done (n) VALUES (3)"))
    assert _done(hq) == ([1, 2] if ends == "commit" else [1, 2, 3])


def test_a_rollback_forgets_what_is_held(hq: Site) -> None:
    with hq.session() as connection:
        _ADD.hold(connection, n=1)
        connection.rollback()
        _ADD.run(connection, n=2)
        connection.commit()
    assert _done(hq) == [2]


@pytest.mark.parametrize("fails", [False, True])
def test_a_block_of_the_driver_rolls_back_what_is_held_in_it(
    hq: Site, *, fails: bool
) -> None:
    with hq.transaction() as connection:
        _ADD.run(connection, n=1)
        _ADD.hold(connection, n=2)
        with (
            suppress(ZeroDivisionError),
            raw(connection).transaction(force_rollback=not fails),
        ):
            _ADD.hold(connection, n=3)
            if fails:
                _ADD.run(connection, n=4)
                raise ZeroDivisionError
        _ADD.run(connection, n=5)
        _ADD.run(connection, n=6)
    assert _done(hq) == [1, 2, 5, 6]


def test_a_savepoint_is_set_before_what_is_rolled_back_to_it(hq: Site) -> None:
    with hq.transaction() as connection:
        _ADD.run(connection, n=1)
        savepoint = connection.begin_nested()
        with pytest.raises(DBAPIError, match="done_n_check"):
            _ADD.run(connection, n=10)
        savepoint.rollback()
        _ADD.run(connection, n=2)
    assert _done(hq) == [1, 2]


def test_what_python_cannot_carry_leaves_the_rest_waiting(hq: Site) -> None:
    with hq.transaction() as connection:
        _ADD.hold(connection, n=1)
        savepoint = connection.begin_nested()
        with pytest.raises(DBAPIError, match="NUL"):
            exchange(connection, Bound(b"SELECT $1::text", ["\0"]))
        savepoint.rollback()
        _ADD.run(connection, n=2)
    assert _done(hq) == [1, 2]


def test_a_commit_fails_with_what_was_held(hq: Site) -> None:
    with hq.session() as connection:
        _ADD.run(connection, n=1)
        _ADD.hold(connection, n=10)
        with pytest.raises(DBAPIError, match="done_n_check"):
            connection.commit()
        connection.rollback()
        _ADD.run(connection, n=2)
        connection.commit()
    assert _done(hq) == [2]


def test_without_a_transaction_nothing_is_held(hq: Site) -> None:
    with hq.begin() as connection:
        hold(connection, Bound(b"INSERT INTO public.done (n) VALUES (1)"))
        assert _count(connection) == 1


def test_it_prepares_again_what_names_another_table_now(hq: Site) -> None:
    with hq.session() as connection:
        _ADD.run(connection, n=1)
        connection.rollback()
        _ADD.run(connection, n=2)
        connection.execute(text("DROP TABLE public.done"))
        connection.execute(text("CREATE TABLE public.done (place serial, n text)"))
        _ADD.run(connection, n=3)
        connection.commit()
    assert rows(hq, "done") == [(1, "3")]


def test_it_reads_the_columns_again_that_the_session_renames(hq: Site) -> None:
    every = Prepared(text("SELECT * FROM public.done"))
    with hq.session() as connection:
        assert every.run(connection).all() == []
        connection.execute(text("ALTER TABLE public.done RENAME n TO number"))
        connection.execute(text("INSERT INTO public.done (number) VALUES (1)"))
        assert every.run(connection).one().number == 1


def test_names_that_look_like_parameters_are_names(hq: Site) -> None:
    name = '%s %(x)s :x $1 "%(n'
    given = sa.bindparam("n", 0, sa.Integer)
    shown = [given.label(name), given % 4, sa.literal_column("'%(n)s'")]
    statement = sa.select(*shown, text("'100%' LIKE '%0%'")).where(given.in_([7, 8]))
    with hq.session() as connection:
        row = Prepared(statement).run(connection, n=7).one()
    assert row._mapping[name] == 7
    assert tuple(row) == (7, 3, "%(n)s", True)


def test_a_server_keeps_nothing_of_statements_that_have_failed(hq: Site) -> None:
    with hq.session() as connection:
        for _ in range(3):
            with pytest.raises(DBAPIError):
                _ADD.run(connection, n=99)
            connection.rollback()
        _ADD.run(connection, n=1)
        kept = text("SELECT count(*) FROM pg_prepared_statements")
        assert connection.scalar(kept) == 1


def test_the_answer_to_what_is_held_is_read_later(hq: Site) -> None:
    with hq.transaction() as connection:
        asked = hold(connection, Bound(b"SELECT 1 AS n"))
        both = hold(
            connection, Bound(b"SELECT 'a' AS t, NULL UNION ALL SELECT '', 'b'")
        )
        assert asked.answer().scalar() == 1
        assert both.texts() == [("a", None), ("", "b")]
        assert asked.answer().one().n == 1


def test_the_answer_to_what_a_rollback_has_dropped_is_not_there(hq: Site) -> None:
    with hq.session() as connection:
        asked = hold(connection, Bound(b"SELECT 1"))
        connection.rollback()
        with pytest.raises(RuntimeError, match="rollback"):
            asked.answer()


def test_what_is_sent_runs_while_nobody_waits(hq: Site) -> None:
    """As a transaction of its own, whose answer is there when it is asked for."""
    with hq.session() as connection:
        one, two = send(
            connection,
            Bound(b"SELECT pg_advisory_lock(1)"),
            Bound(b"INSERT INTO public.done (n) VALUES (1) RETURNING n"),
        )
        _wait_for(hq, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", 1)
        assert (two.answer().scalar(), one.answer().rowcount) == (1, 1)
        assert not connection.in_transaction()
    assert _done(hq) == [1]


@pytest.mark.parametrize(
    "ends", ["exchange", "statement", "commit", "autocommit", "level"]
)
def test_what_follows_waits_for_what_was_sent(hq: Site, ends: str) -> None:
    with hq.session() as connection:
        send(connection, _ADD.bound(n=1))
        if ends == "exchange":
            _ADD.run(connection, n=2)
        elif ends == "statement":
            connection.execute(text("INSERT INTO public.done (n) VALUES (2)"))
        elif ends == "autocommit":
            with autocommit(connection):
                _ADD.run(connection, n=2)
        elif ends == "level":
            connection.execution_options(isolation_level="REPEATABLE READ")
            _ADD.run(connection, n=2)
        connection.commit()
    assert _done(hq) == ([1] if ends == "commit" else [1, 2])


@pytest.mark.parametrize(
    "uses", [lambda connection: _ADD.run(connection, n=2), Connection.rollback]
)
def test_what_was_sent_and_failed_is_heard_of(
    hq: Site, uses: Callable[[Connection], object]
) -> None:
    """Nobody has waited for it, so the next one that uses the session is told."""
    with hq.session() as connection:
        send(connection, _ADD.bound(n=10))
        connection.begin()
        with pytest.raises(DBAPIError, match="done_n_check"):
            uses(connection)
        connection.rollback()
        _ADD.run(connection, n=3)
        connection.commit()
    assert _done(hq) == [3]


def test_what_was_sent_and_failed_is_heard_of_without_a_transaction(hq: Site) -> None:
    """By an error of the kind that every statement raises."""
    with hq.session() as connection:
        send(connection, _ADD.bound(n=10))
        with pytest.raises(DBAPIError, match="done_n_check"), autocommit(connection):
            pass
        with autocommit(connection):
            _ADD.run(connection, n=3)
    assert _done(hq) == [3]


def test_what_fails_after_all_statements_is_heard_of(hq: Site) -> None:
    """A session answers once more then than it was asked; others can use it later."""
    run(
        hq,
        "ALTER TABLE done ADD CONSTRAINT once UNIQUE (n) DEFERRABLE INITIALLY DEFERRED",
    )
    with hq.session() as connection:
        with autocommit(connection):
            exchange(connection, _ADD.bound(n=1))
            with pytest.raises(DBAPIError, match="once"):
                exchange(connection, _ADD.bound(n=1), _ADD.bound(n=2))
        _ADD.run(connection, n=3)
        connection.commit()
    assert _done(hq) == [1, 3]


def test_an_error_shows_the_beginning_of_a_long_statement(hq: Site) -> None:
    statement = b"SELECT 1 / (length('%s') - 5000)" % (b"x" * 5000)
    with hq.session() as connection:
        with pytest.raises(DBAPIError, match="SELECT 1 / ") as failed:
            exchange(connection, Bound(statement, kept=False))
        assert len(str(failed.value)) < 2500
        connection.rollback()


@pytest.mark.parametrize("wrong", [b"SELECT 1 / 0", b"SELECT no_column"])
def test_an_error_shows_the_statement_that_failed(hq: Site, wrong: bytes) -> None:
    """Whether the server refuses to run it or to prepare it."""
    with hq.session() as connection:
        held = hold(connection, Bound(b"SELECT 1"))
        hold(connection, Bound(wrong))
        with pytest.raises(DBAPIError) as failed:
            held.answer()
        assert failed.value.statement == wrong.decode()
        connection.rollback()
        with pytest.raises(DBAPIError) as failed:
            exchange(connection, Bound(b"SELECT 1"), Bound(wrong), _ADD.bound(n=1))
        assert failed.value.statement == wrong.decode()


@pytest.mark.parametrize("before", [b"SELECT 1", _ENDED])
def test_a_server_that_ends_a_session_says_why(hq: Site, before: bytes) -> None:
    with hq.session() as connection, pytest.raises(DBAPIError) as failed:
        exchange(connection, Bound(before), Bound(_ENDED), Bound(b"SELECT 1"))
    assert "terminating connection" in str(failed.value)
    assert failed.value.connection_invalidated


def test_what_is_held_stays_in_its_transaction_if_others_are_sent(hq: Site) -> None:
    with hq.session() as connection:
        _ADD.hold(connection, n=1)
        send(connection, _ADD.bound(n=2))
        connection.rollback()
    assert _done(hq) == []


def test_a_savepoint_is_released_with_what_follows(hq: Site) -> None:
    with hq.transaction() as connection:
        savepoint = connection.begin_nested()
        _ADD.run(connection, n=1)
        savepoint.commit()
        with sent(hq) as statements:
            _ADD.run(connection, n=2)
    assert statements[0].startswith("RELEASE SAVEPOINT")
    assert _done(hq) == [1, 2]


def _wait_for(site: Site, query: str, wanted: int) -> None:
    with site.session() as other, autocommit(other):
        until(
            lambda: other.scalar(text(query)) == wanted,
            wait=wait_fixed(0.01),
            stop=stop_after_delay(30),
        )


def _count(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT count(*) FROM public.done")) or 0)
