"""Work tables that a pooled session keeps from one push to the next."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, TextClause, select, text

from deferred.batches import work
from sites import Directory, names
from sites.sessions import connections
from sites.tables.table import describe
from sites.writing.staged import Staged, selected
from tests.fix_worker import eventually
from tests.linked_table import run

KINDS = text("SELECT count(*) FROM pg_temp.snaptide_work_1")
FILL = text(
    "INSERT INTO pg_temp.snaptide_work_1 (unit, tran, several, call_no, kind)"
    " VALUES (1, 1, false, 1, 'I')"
)


@pytest.fixture
def session(sites: Directory) -> Iterator[Connection]:
    run(sites["hq"], "CREATE TABLE orders (id int PRIMARY KEY, qty int)")
    with sites["hq"].connect() as connection:
        yield connection


def _stage(connection: Connection) -> Staged:
    table = describe(connection, names.parse("orders"))
    return work.stage(connection, 1, table, ("id", "qty"), ("id",))


def test_a_session_keeps_a_work_table_and_empties_it(session: Connection) -> None:
    first = _stage(session)
    session.execute(FILL)
    session.commit()
    assert _stage(session) is first
    assert session.scalar(KINDS) == 0


def test_a_transaction_may_have_more_steps_than_a_statement_takes_values(
    session: Connection,
) -> None:
    source = _stage(session).source
    session.execute(FILL)
    steps = {"unit": tuple(range(70_000))}
    wanted = select(source.c.call_no).where(selected(source, steps))
    assert session.scalars(wanted).all() == [1]


def test_a_work_table_that_was_rolled_back_is_made_again(session: Connection) -> None:
    first = _stage(session)
    session.rollback()
    assert _stage(session) is not first
    session.execute(FILL)


def test_another_type_of_a_column_makes_another_work_table(
    sites: Directory, session: Connection
) -> None:
    _stage(session)
    session.commit()
    run(sites["hq"], "ALTER TABLE orders ALTER qty TYPE text")
    staged = _stage(session)
    assert staged.table.column("qty").type == "text"
    session.execute(
        text(
            "INSERT INTO pg_temp.snaptide_work_1 (unit, tran, several,"
            " call_no, kind, n2) VALUES (1, 1, false, 1, 'I', 'many')"
        )
    )


def test_a_table_of_that_name_that_somebody_else_made_is_replaced(
    session: Connection,
) -> None:
    first = _stage(session)
    session.execute(text("DROP TABLE pg_temp.snaptide_work_1"))
    session.execute(text("CREATE TEMPORARY TABLE snaptide_work_1 (kind text)"))
    session.commit()
    assert _stage(session) is not first
    session.execute(FILL)


def test_another_type_of_the_same_name_makes_another_work_table(
    sites: Directory, session: Connection
) -> None:
    hq = sites["hq"]
    run(
        hq,
        "CREATE TYPE mood AS ENUM ('good')",
        "ALTER TABLE orders ALTER qty TYPE mood USING 'good'::mood",
    )
    first = _stage(session)
    session.commit()
    run(
        hq,
        "ALTER TYPE mood RENAME TO former",
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "ALTER TABLE orders ALTER qty TYPE mood USING qty::text::mood",
    )
    assert _stage(session) is not first
    session.commit()
    run(hq, "DROP TYPE former")


def test_sessions_that_hold_a_type_of_a_user_are_closed_first(sites: Directory) -> None:
    """It could be neither dropped nor altered as long as a worker is up."""
    hq = sites["hq"]
    run(
        hq,
        "CREATE TYPE mood AS ENUM ('good')",
        "CREATE TABLE orders (id int PRIMARY KEY, qty mood)",
    )
    for held in (True, False):
        with hq.session() as session:
            if held:
                _stage(session)
            session.commit()
        hq.keep_few(60)
        there = text("SELECT count(*) FROM pg_class WHERE relname = 'snaptide_work_1'")
        with hq.connect() as connection:
            assert connection.scalar(there) == held
        hq.keep_few()
    run(hq, "DROP TABLE orders", "DROP TYPE mood")


def test_sessions_are_replaced_when_they_are_old(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No vacuum freezes the rows of their temporary tables."""
    monkeypatch.setattr(connections, "OLD", 0)
    backend = text("SELECT pg_backend_pid()")
    there = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with Directory({"hq": sites["hq"].url}) as again:
        with again["hq"].session() as session:
            first = session.scalar(backend)
        with again["hq"].session() as session:
            second = session.scalar(backend)
        assert first != second
        again["hq"].keep_few(60)
        assert _count(sites, there, second) == 1
        again["hq"].keep_few()
        eventually(lambda: _count(sites, there, second) == 0, what="closed")


def _count(sites: Directory, query: TextClause, pid: int) -> int:
    with sites["hq"].connect() as connection:
        return int(connection.execute(query, {"pid": pid}).scalar_one())
