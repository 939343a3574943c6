"""What a database or its users have set does not change what Snaptide does."""

import secrets

import psycopg
import pytest
from psycopg import sql

import deferred
from sites import Directory, Site, identity
from sites.errors import NotAMember
from snaptide.embedded import PostgresServer
from tests.fix_sites import run
from tests.linked_table import link, rows


def test_each_statement_sees_what_was_committed_before_it(sites: Directory) -> None:
    site = sites["jfk"]
    _for_the_database(site, "default_transaction_isolation", "repeatable read")
    with site.connect() as connection:
        show = connection.exec_driver_sql("SHOW transaction_isolation")
        assert show.scalar_one() == "read committed"
    with psycopg.connect(site.libpq_uri()) as outside:
        shown = outside.execute("SHOW transaction_isolation").fetchone()
        assert shown == ("read committed",)


def test_both_ends_speak_one_encoding(sites: Directory) -> None:
    site = sites["jfk"]
    _for_the_database(site, "client_encoding", "LATIN1")
    with site.connect() as connection:
        show = connection.exec_driver_sql("SHOW client_encoding")
        assert show.scalar_one() == "UTF8"


def test_a_user_whose_changes_would_be_taken_for_others_is_refused(
    sites: Directory, server: PostgresServer
) -> None:
    name = f"stranger_{secrets.token_hex(4)}"
    run(
        sites["jfk"],
        f"CREATE ROLE {name} LOGIN PASSWORD 'x'",
        f"GRANT USAGE ON SCHEMA snaptide TO {name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA snaptide TO {name}",
    )
    url = sites["jfk"].url.set(username=name, password="x")
    other = Directory({"jfk": url})
    try:
        with other["jfk"].connect() as connection, pytest.raises(NotAMember):
            identity.confirm(connection, "jfk")
    finally:
        other.close()
        run(sites["jfk"], f"DROP OWNED BY {name}")
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def _for_the_database(site: Site, setting: str, value: str) -> None:
    run(site, f"ALTER DATABASE \"{site.url.database}\" SET {setting} = '{value}'")
    site.engine.dispose()


def test_array_keeps_its_nulls(sites: Directory) -> None:
    link(sites, columns="id int PRIMARY KEY, v text[]")
    for site in sites.values():
        _for_the_database(site, "array_nulls", "off")
    run(sites["jfk"], "INSERT INTO public.orders VALUES (1, ARRAY[NULL, 'NULL'])")
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"]) == [(1, [None, "NULL"])]
