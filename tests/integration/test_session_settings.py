"""What a database or its users have set does not change what Snaptide does."""

import secrets

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.exc import InternalError

import deferred
import snapshots
from deferred.errors import PushInterrupted
from sites import Directory, Site
from sites.errors import (
    ActsAsAnotherRole,
    NotAMember,
    SiteUnreachable,
    TriggersSwitchedOff,
)
from sites.sessions import identity
from sites.sessions import site as site_of_ours
from snapshots.differences import difference
from snaptide import doctor
from snaptide.asking import as_told
from snaptide.embedded import PostgresServer
from snaptide.errors import OnlyReads
from tests.fix_sites import log
from tests.linked_table import link, parked, queued, rows, run


def test_each_statement_sees_what_was_committed_before_it(sites: Directory) -> None:
    site = sites["jfk"]
    _for_the_database(site, "default_transaction_isolation", "repeatable read")
    with site.connect() as connection:
        show = connection.exec_driver_sql("SHOW transaction_isolation")
        assert show.scalar_one() == "read committed"
    with psycopg.connect(site.libpq_uri()) as outside:
        shown = outside.execute("SHOW transaction_isolation").fetchone()
        assert shown == ("read committed",)


@pytest.mark.parametrize(
    "limit",
    ["idle_in_transaction_session_timeout", "idle_session_timeout"],
)
def test_long_work_is_not_ended_by_limits_for_users(
    sites: Directory, limit: str
) -> None:
    site = sites["jfk"]
    _for_the_database(site, limit, "50ms")
    with site.connect() as connection:
        assert connection.exec_driver_sql(f"SHOW {limit}").scalar_one() == "0"
    with psycopg.connect(site.libpq_uri()) as outside:
        assert outside.execute(f"SHOW {limit}").fetchone() == ("0",)


def test_long_statements_are_not_ended_by_a_limit_for_users(sites: Directory) -> None:
    """It stays in sessions that run the statements of programs."""
    site = sites["jfk"]
    _for_the_database(site, "statement_timeout", "50ms")
    with site.session() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(0.2)")
    with site.connect() as connection:
        shown = connection.exec_driver_sql("SHOW statement_timeout").scalar_one()
        assert shown == "50ms"


def test_doctor_names_a_limit_that_ends_long_transactions(
    sites: Directory, pg_version: int
) -> None:
    """A session cannot begin without it: PostgreSQL 16 would refuse the name."""
    if pg_version < 17:
        pytest.skip("there is no such limit")
    site = sites["jfk"]
    setting = "transaction_timeout"
    assert setting not in [one.subject for one in doctor.examine(site)]
    _for_the_database(site, setting, "30s")
    [found] = [one for one in doctor.examine(site) if one.subject == setting]
    assert found.what.startswith("It is 30s for Snaptide's sessions: ")


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
        with other["jfk"].session() as connection, pytest.raises(NotAMember):
            identity.confirm(connection, "jfk")
    finally:
        other.close()
        run(sites["jfk"], f"DROP OWNED BY {name}")
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def _for_the_database(site: Site, setting: str, value: str) -> None:
    run(site, f"ALTER DATABASE \"{site.url.database}\" SET {setting} = '{value}'")
    site.close()


@pytest.mark.parametrize("name", ["hq", "jfk"])
def test_nothing_is_written_without_foreign_keys_and_triggers(
    sites: Directory, name: str
) -> None:
    """Or a row without its parent would stand at the master, and nobody would know."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, columns="id int PRIMARY KEY, parent int")
    run(
        hq,
        "CREATE TABLE public.parent (id int PRIMARY KEY)",
        "ALTER TABLE public.orders ADD FOREIGN KEY (parent) REFERENCES public.parent",
    )
    run(jfk, "INSERT INTO public.orders VALUES (1, 5)")
    _for_the_database(sites[name], "session_replication_role", "replica")
    with pytest.raises(TriggersSwitchedOff, match=f"at site {name} have"):
        deferred.push(jfk)
    assert (rows(hq), queued(jfk), parked(hq)) == ([], 1, [])
    setting = "session_replication_role"
    assert [one.subject for one in doctor.examine(sites[name])].count(setting) == 1
    run(
        sites[name],
        f'ALTER DATABASE "{sites[name].url.database}" RESET session_replication_role',
    )
    sites[name].close()
    assert deferred.push(jfk).errors == 1
    assert rows(hq) == []


def test_a_role_in_which_foreign_keys_and_triggers_act_is_allowed(
    sites: Directory,
) -> None:
    """With `local` all of them do, as with `origin`."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, columns="id int PRIMARY KEY, v text")
    for site in sites.values():
        _for_the_database(site, "session_replication_role", "local")
    run(jfk, "INSERT INTO public.orders VALUES (1, 'a')")
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == [(1, "a")]
    said = [one.subject for site in sites.values() for one in doctor.examine(site)]
    assert "session_replication_role" not in said


@pytest.mark.parametrize("name", ["hq", "jfk"])
def test_a_role_that_sessions_begin_in_is_told(
    sites: Directory, server: PostgresServer, name: str
) -> None:
    """As after ALTER ROLE ... SET role, here in one database alone."""
    hq, jfk, site = sites["hq"], sites["jfk"], sites[name]
    link(sites, columns="id int PRIMARY KEY, v text")
    run(jfk, "INSERT INTO public.orders VALUES (1, 'a')")
    role = f"another_{secrets.token_hex(4)}"
    login, database = site.url.username, site.url.database
    setting = f'ALTER ROLE "{login}" IN DATABASE "{database}"'
    run(site, f"CREATE ROLE {role}", f"{setting} SET role = {role}")
    site.close()
    try:
        with pytest.raises(ActsAsAnotherRole, match=f"begin in the role {role}"):
            deferred.push(jfk)
        found = [one for one in doctor.examine(site) if role in one.what]
        assert [one.subject for one in found] == [ActsAsAnotherRole.code]
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"{setting} RESET role")
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
    site.close()
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == [(1, "a")]


@pytest.mark.parametrize("name", ["hq", "jfk"])
def test_a_site_that_lets_nobody_write_is_told(sites: Directory, name: str) -> None:
    hq, jfk, site = sites["hq"], sites["jfk"], sites[name]
    link(sites, columns="id int PRIMARY KEY, v text")
    run(jfk, "INSERT INTO public.orders VALUES (1, 'a')")
    setting = "default_transaction_read_only"
    _for_the_database(site, setting, "on")
    with pytest.raises(PushInterrupted, match="read-only transaction"):
        deferred.push(jfk)
    with pytest.raises(InternalError) as told, site.begin() as connection:
        connection.exec_driver_sql("INSERT INTO public.orders VALUES (2, 'b')")
    assert as_told(told.value).code == OnlyReads.code
    assert [one.subject for one in doctor.examine(site)].count(setting) == 1
    database = site.url.database
    run(
        site,
        "SET LOCAL transaction_read_only = off",
        f'ALTER DATABASE "{database}" RESET {setting}',
    )
    site.close()
    assert deferred.push(jfk).errors == 0
    assert rows(hq) == [(1, "a")]


def test_array_keeps_its_nulls(sites: Directory) -> None:
    link(sites, columns="id int PRIMARY KEY, v text[]")
    for site in sites.values():
        _for_the_database(site, "array_nulls", "off")
    run(sites["jfk"], "INSERT INTO public.orders VALUES (1, ARRAY[NULL, 'NULL'])")
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"]) == [(1, [None, "NULL"])]


@pytest.mark.usefixtures("spark")
def test_moment_outlasts_a_comparison(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transactions have nothing to do while rows are compared, or loaded."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    snapshots.refresh(jfk, "t")
    compare = difference.small

    def slow(*images: object) -> object:
        with psycopg.connect(hq.libpq_uri()) as other:
            other.execute("SELECT pg_sleep(1)")
        return compare(*images)  # type: ignore[arg-type]

    monkeypatch.setattr(difference, "small", slow)
    for site in (hq, jfk):
        _for_the_database(site, "idle_in_transaction_session_timeout", "300ms")
    run(hq, "INSERT INTO public.t VALUES (1)")
    assert snapshots.refresh(jfk, "t").snapshots[0].inserted == 1


def test_no_free_session_counts_as_a_site_that_is_away(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 0.1}
    for name, value in few.items():
        monkeypatch.setitem(site_of_ours._POOL, name, value)
    with (
        Directory({"jfk": sites["jfk"].url}) as narrow,
        narrow["jfk"].session(),
        pytest.raises(SiteUnreachable, match="none became free"),
        narrow["jfk"].session(),
    ):
        pass
