"""Names without a schema, in the statements of programs: found as psql finds them."""

import pytest
from sqlalchemy import text

import deferred
import synchronous
from sites import Directory, Site
from snaptide.doctor import check_site
from snaptide.status import status_of
from tests.linked_table import link, rows, run


def test_table_is_created_used_and_dropped_by_its_name(jfk: Site) -> None:
    with jfk.begin() as connection:
        connection.execute(text("CREATE TABLE x (id int)"))
        connection.execute(text("INSERT INTO x VALUES (1)"))
    with jfk.connect() as connection:
        assert connection.scalar(text("SELECT tableoid::regclass::text FROM x")) == "x"
    assert rows(jfk, "public.x") == [(1,)]


@pytest.fixture
def shop(sites: Directory) -> Directory:
    """The sites, where the role finds names in a schema of an application's."""
    for site in sites.values():
        run(site, "CREATE SCHEMA shop", "CREATE DOMAIN shop.size AS int")
    link(sites, "shop.orders", "id int PRIMARY KEY, qty shop.size")
    for site in sites.values():
        run(site, f'ALTER DATABASE "{site.url.database}" SET search_path = shop')
        site.close()
    return sites


def test_search_path_of_the_role_holds(shop: Directory) -> None:
    with shop["jfk"].begin() as connection:
        assert connection.scalar(text("SHOW search_path")) == "shop"
        connection.execute(text("INSERT INTO orders VALUES (1, 1)"))
    assert deferred.push(shop["jfk"]).transactions == 1
    with synchronous.begin(shop["jfk"]) as connection:
        assert connection.scalar(text("SHOW search_path")) == "shop"
        connection.execute(text("INSERT INTO orders VALUES (2, 2)"))
    for site in shop.values():
        assert rows(site, "shop.orders") == [(1, 1), (2, 2)]


def test_retry_leaves_the_path_of_its_program(shop: Directory) -> None:
    hq, jfk = shop["hq"], shop["jfk"]
    run(hq, "INSERT INTO orders VALUES (1, 1)")
    run(jfk, "INSERT INTO orders VALUES (1, 2)")
    assert deferred.push(jfk).errors == 1
    [error] = deferred.list_errors(hq)
    with hq.begin() as connection:
        connection.execute(text("DELETE FROM orders"))
        deferred.retry(connection, hq, error.id)
        connection.execute(text("UPDATE orders SET qty = qty + 1"))
    assert rows(hq, "shop.orders") == [(1, 3)]


def test_no_verb_works_in_a_connection_for_programs(
    shop: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk = shop["jfk"]
    run(jfk, "INSERT INTO orders VALUES (1, 1)")

    def refused(site: Site) -> None:
        raise AssertionError(f"a connection of {site.name}")

    with monkeypatch.context() as patch:
        patch.setattr(Site, "connect", refused)
        assert deferred.push(jfk).transactions == 1
        deferred.purge(jfk)
        for site in shop.values():
            assert status_of(site).error is None
            check_site(site)


#: PostgreSQL calls it instead of its own if its schema is searched, and it fits better.
TRAP = "CREATE FUNCTION public.lower(varchar) RETURNS text RETURN 'trapped'"


def test_our_sessions_are_not_the_programs(jfk: Site) -> None:
    """What a program leaves in a session does not reach a statement of ours."""
    run(jfk, TRAP)
    with jfk.begin() as connection:
        connection.execute(text("SET search_path = public, pg_catalog"))
        connection.execute(text("CREATE TEMP TABLE pg_class (relname text)"))
    for _ in range(2):
        with jfk.transaction() as connection:
            assert connection.scalar(text("SHOW search_path")) == "pg_catalog"
            assert connection.scalar(text("SELECT count(*) > 1 FROM pg_class"))
            assert connection.scalar(text("SELECT lower('A'::varchar)")) == "a"
