"""A program's own directory of sites."""

import time

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from sites import Directory
from tests.linked_table import run


def test_no_connection_is_left_after_the_block(sites: Directory) -> None:
    def sessions() -> object:
        [found] = run(
            sites["hq"],
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        return found[0]

    before = sessions()
    with Directory({"hq": sites["hq"].url}) as mine:
        run(mine["hq"], "SELECT 1")
        assert sessions() != before  # it is idle now, in the pool
    until = time.monotonic() + 60
    while sessions() != before and time.monotonic() < until:
        time.sleep(0.05)
    assert sessions() == before


def test_sites_share_what_is_compiled(sites: Directory) -> None:
    times: list[str] = []

    class Constant(FunctionElement[int]):
        inherit_cache = True
        type = sa.Integer()

    @compiles(Constant)
    def _compile(_element: Constant, compiler: SQLCompiler, **_: object) -> str:
        times.append(compiler.dialect.name)
        return "1"

    def sum_with(connection: sa.Connection, value: int) -> int | None:
        return connection.scalar(sa.select(Constant() + value))

    with sites["hq"].session() as connection:
        assert sum_with(connection, 1) == 2
    with sites["jfk"].session() as connection, sites["jfk"].connect() as program:
        assert [sum_with(connection, 2), sum_with(program, 3)] == [3, 4]
    assert times == ["postgresql"]
