"""The proxy that other tests cut lines with does what they think it does."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from snaptide.embedded import PostgresServer
from tests.fix_proxy import Proxy

MakeProxy = Callable[[str], Proxy]


def connect(proxy: Proxy) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(proxy.url, autocommit=True, connect_timeout=120)


def test_passes_everything_on(server: PostgresServer, make_proxy: MakeProxy) -> None:
    with connect(make_proxy(server.url())) as session:
        row = session.execute("SELECT repeat('x', 1000000)").fetchone()
    assert row == ("x" * 1000000,)


def test_cut_ends_sessions_and_takes_new_ones(
    server: PostgresServer, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(server.url())
    session = connect(proxy)
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    session.close()
    with connect(proxy) as again:
        again.execute("SELECT 1")


def test_stop_refuses_until_started_again(
    server: PostgresServer, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(server.url())
    session = connect(proxy)
    proxy.stop()
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    session.close()
    with pytest.raises(psycopg.OperationalError):
        connect(proxy)
    proxy.start()
    with connect(proxy) as again:
        again.execute("SELECT 1")


def test_deaf_line_stays_open_and_says_nothing(
    server: PostgresServer, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(server.url())
    session = connect(proxy)
    with ThreadPoolExecutor(1) as pool:
        proxy.deafen()
        answer = pool.submit(session.execute, "SELECT 1")
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(proxy.url, connect_timeout=2)
        assert not answer.done()
        proxy.hear()
        assert answer.result(timeout=120).fetchone() == (1,)
    session.close()


def test_cut_while_deaf_leaves_no_answer(
    server: PostgresServer, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(server.url())
    session = connect(proxy)
    with ThreadPoolExecutor(1) as pool:
        proxy.deafen()
        answer = pool.submit(session.execute, "SELECT 1")
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            answer.result(timeout=120)
    session.close()


def test_server_gone_means_line_gone(
    own_server: PostgresServer, make_proxy: MakeProxy
) -> None:
    proxy = make_proxy(own_server.url())
    session = connect(proxy)
    own_server.kill()
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    session.close()
    with pytest.raises(psycopg.OperationalError):
        connect(proxy)
