"""Row-level security that hides rows of a master table from Snaptide's own user.

A row that is hidden looks like one that is gone: a refresh would delete it.
"""

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

import deferred
import snapshots
import synchronous
from sites import Directory, Site, TableHidesRows
from snapshots.definitions.errors import HiddenRows
from snapshots.errors import RowsHidden
from snaptide import doctor
from snaptide.embedded import PostgresServer
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def reader(server: PostgresServer, sites: Directory) -> Iterator[str]:
    """A user who may work with Snaptide at hq, and sees rows that policies show."""
    name = f"reader_{secrets.token_hex(4)}"
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t VALUES (1, 'shown'), (2, 'hidden')",
        f"CREATE ROLE {name} LOGIN PASSWORD 'of-a-test' BYPASSRLS",
        f"GRANT snaptide_apply TO {name}",
        f"GRANT ALL ON SCHEMA snaptide TO {name}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA snaptide TO {name}",
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA snaptide TO {name}",
        f"GRANT SELECT ON public.t TO {name}",
    )
    log(sites["hq"], "t")
    run(
        sites["hq"],
        f'GRANT SELECT ON snaptide."mlog$_t" TO {name}',
        "ALTER TABLE public.t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON public.t USING (v = 'shown')",
    )
    yield name
    run(sites["hq"], f"DROP OWNED BY {name}")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_hidden_rows_are_never_taken_for_gone(sites: Directory, reader: str) -> None:
    url = sites["hq"].url.set(username=reader, password="of-a-test")
    as_reader = Directory({"hq": url, "jfk": sites["jfk"].url})
    jfk = as_reader["jfk"]
    run(sites["hq"], f"ALTER ROLE {reader} NOBYPASSRLS")
    with pytest.raises(HiddenRows):
        snapshots.create(jfk, "t", master="hq")

    run(sites["hq"], f"ALTER ROLE {reader} BYPASSRLS")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    run(sites["hq"], f"ALTER ROLE {reader} NOBYPASSRLS")
    for method in ("f", "c"):
        with pytest.raises(RowsHidden):
            refresh(jfk, "t", method=method)
    assert run(jfk, "SELECT count(*) FROM public.t") == [(2,)]
    assert any(
        "hides its rows" in found.what for found in doctor.examine(as_reader["hq"])
    )
    as_reader.close()


@pytest.mark.parametrize("at_once", [False, True])
def test_changes_of_hidden_rows_wait(
    sites: Directory, reader: str, at_once: bool
) -> None:
    """A delete of a row that is hidden would be taken for done."""
    hq = sites["hq"]
    run(hq, f"GRANT INSERT, UPDATE, DELETE ON public.t TO {reader}")
    url = hq.url.set(username=reader, password="of-a-test")
    with Directory({"hq": url, "jfk": sites["jfk"].url}) as as_reader:
        jfk = as_reader["jfk"]
        snapshots.create(jfk, "t", master="hq", updatable=True)
        refresh(jfk, "t")
        if at_once:
            snapshots.alter_propagation(jfk, "t", synchronous=True)

        gone = "DELETE FROM public.t WHERE v = 'hidden'"

        def delete() -> None:
            if at_once:
                with synchronous.begin(jfk) as connection:
                    connection.execute(text(gone))
            else:
                run(jfk, gone)
                deferred.push(jfk)

        run(hq, f"ALTER ROLE {reader} NOBYPASSRLS")
        with pytest.raises(TableHidesRows, match="rows of t from"):
            delete()
        assert run(hq, "SELECT count(*) FROM public.t") == [(2,)]
        run(hq, f"ALTER ROLE {reader} BYPASSRLS")
        delete()
        assert run(hq, "SELECT v FROM public.t") == [("shown",)]
        assert not deferred.list_errors(as_reader["hq"])


def test_hidden_rows_of_a_base_table_are_never_taken_for_gone(
    sites: Directory, server: PostgresServer
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t VALUES (1, 'shown'), (2, 'hidden')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    name = f"worker_{secrets.token_hex(4)}"
    run(
        jfk,
        f"CREATE ROLE {name} LOGIN PASSWORD 'of-a-test' IN ROLE snaptide_apply",
        f"GRANT ALL ON SCHEMA snaptide TO {name}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA snaptide, public TO {name}",
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA snaptide TO {name}",
    )
    url = jfk.url.set(username=name, password="of-a-test")
    with Directory({"hq": hq.url, "jfk": url}) as as_worker:
        assert _hidden(as_worker["jfk"]) == []
        run(
            jfk,
            'ALTER TABLE public."snap$_t" ENABLE ROW LEVEL SECURITY',
            "CREATE POLICY p ON public.\"snap$_t\" USING (v = 'shown')",
        )
        run(hq, "DELETE FROM public.t WHERE id = 2")
        with pytest.raises(RowsHidden):
            refresh(as_worker["jfk"], "t")
        assert _hidden(as_worker["jfk"]) == ["snap$_t"]
        # Its owner sees all rows, until the policies are forced on him.
        assert _hidden(jfk) == []
    refresh(jfk, "t")
    assert run(jfk, "SELECT id FROM public.t") == [(1,)]
    run(jfk, f"DROP OWNED BY {name}")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def _hidden(site: Site) -> list[str]:
    """Tables of which doctor says that rows are hidden."""
    return [f.subject for f in doctor.examine(site) if "hides its rows" in f.what]
