"""What the seam to PostgreSQL has to do for the packages above `sites`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection, select, text

from masters.log import log_function, ring
from sites import Directory, QualifiedName, Site
from sites.capture import position
from sites.errors import RowCountMismatch
from sites.tables.table import Table, describe
from sites.transfer import transport
from sites.writing import write
from sites.writing.staged import Staged

PEOPLE = QualifiedName("public", "people")


@pytest.fixture
def site(sites: Directory) -> Site:
    """A site with one table of the user's."""
    with sites["hq"].begin() as connection:
        connection.execute(
            text(
                "CREATE TABLE public.people (id int PRIMARY KEY, name text UNIQUE,"
                " age numeric(5,2) NOT NULL DEFAULT 1.50,"
                " boss int REFERENCES public.people,"
                " note json)"
            )
        )
    return sites["hq"]


@pytest.fixture
def connection(site: Site) -> Iterator[Connection]:
    """An open transaction at the site."""
    with site.begin() as connection:
        yield connection


def sql(connection: Connection, statement: str) -> list[tuple[object, ...]]:
    result = connection.execute(text(statement))
    return [tuple(row) for row in result] if result.returns_rows else []


def test_a_table_is_described(connection: Connection) -> None:
    table = describe(connection, PEOPLE)

    assert table.names == ("id", "name", "age", "boss", "note")
    assert table.key == ("id",)
    assert [u.columns for u in table.uniques] == [("id",), ("name",)]
    assert table.column("age").type == "numeric(5,2)"
    assert table.column("age").default == "1.50"
    assert not table.column("age").nullable
    assert not table.column("note").comparable
    assert table.foreign_keys[0].parent == PEOPLE


def test_rows_travel_unparsed(sites: Directory, site: Site) -> None:
    values = (
        '1, E\'tab\\t, \\\\N, quote " and \\n\', 2.50, NULL, \'{"b": 1,  "a": null}\''
    )
    with site.transaction() as here, sites["jfk"].transaction() as there:
        sql(here, f"INSERT INTO public.people VALUES ({values})")
        sql(
            there,
            "CREATE TABLE public.copied"
            " (id int, name text, age numeric, boss int, note json)",
        )
        people = describe(here, PEOPLE)
        copied = describe(there, QualifiedName("public", "copied")).sql()
        rows = transport.copy(here, select(people.sql()), there, copied, people.names)

        assert rows == 1
        assert sql(there, "SELECT copied::text FROM public.copied") == sql(
            here, "SELECT people::text FROM public.people"
        )


def log(connection: Connection) -> Table:
    table = describe(connection, PEOPLE)
    ring.create(connection, "mlog$_people", table, ("id",))
    log_function.install(
        connection,
        log_function.LogCapture(
            table=table,
            log="mlog$_people",
            identity=("id",),
            fitting=(ring.fitting(table.column("id")),),
        ),
    )
    return table


def logged(connection: Connection) -> list[tuple[object, ...]]:
    return sql(
        connection,
        'SELECT kind::text, k1 FROM snaptide."mlog$_people" ORDER BY k1, kind::text',
    )


def test_a_log_holds_keys_of_what_changed(connection: Connection) -> None:
    log(connection)

    sql(connection, "INSERT INTO public.people (id, name) VALUES (1, 'a'), (2, 'b')")
    sql(connection, "UPDATE public.people SET id = 3 WHERE id = 2")
    sql(connection, "UPDATE public.people SET age = 7 WHERE id = 1")
    sql(connection, "DELETE FROM public.people WHERE id = 1")

    assert logged(connection) == [
        ("D", 1),
        ("I", 1),
        ("U", 1),
        ("D", 2),
        ("I", 2),
        ("I", 3),
    ]


def test_a_writer_does_not_care_for_columns_that_went(connection: Connection) -> None:
    log(connection)
    sql(connection, "INSERT INTO public.people (id) VALUES (1)")

    sql(connection, "ALTER TABLE public.people DROP COLUMN age")
    sql(connection, "ALTER TABLE public.people RENAME COLUMN name TO title")
    sql(connection, "UPDATE public.people SET title = 'a' WHERE id = 1")

    assert logged(connection) == [("I", 1), ("U", 1)]


def test_what_is_rolled_back_is_not_logged(connection: Connection) -> None:
    log(connection)

    savepoint = connection.begin_nested()
    sql(connection, "INSERT INTO public.people (id) VALUES (1)")
    savepoint.rollback()
    sql(connection, "INSERT INTO public.people (id) VALUES (2)")

    assert logged(connection) == [("I", 2)]


def test_a_late_commit_is_ahead_of_every_position(site: Site) -> None:
    with site.transaction() as connection:
        log(connection)
    with site.session() as late, site.session() as reader:
        sql(late, "INSERT INTO public.people (id) VALUES (1)")
        with site.begin() as early:
            sql(early, "INSERT INTO public.people (id) VALUES (2)")
        before = position.current(reader)
        reader.rollback()
        late.commit()

        table = sa.table(
            "mlog$_people", sa.column("xid"), sa.column("k1"), schema="snaptide"
        )
        window = select(table.c.k1).where(position.since(table.c.xid, before))
        assert reader.scalars(window).all() == [1]
        reader.rollback()
        after = position.current(reader)
        window = select(table.c.k1).where(position.since(table.c.xid, after))
        assert reader.scalars(window).all() == []


def test_a_log_is_emptied_only_behind_the_horizon(site: Site) -> None:
    with site.transaction() as connection:
        log(connection)
        sql(connection, "INSERT INTO public.people (id) VALUES (1)")
    with site.transaction() as connection:
        xid = sql(connection, 'SELECT max(xid)::text FROM snaptide."mlog$_people"')[0][
            0
        ]
        assert ring.full_slots(connection, "mlog$_people", str(xid)) == []
        beyond = str(int(str(xid)) + 1)
        slots = ring.full_slots(connection, "mlog$_people", beyond)
        assert len(slots) == 1
        assert ring.empty_slot(connection, "mlog$_people", slots[0], beyond)
        assert logged(connection) == []


def test_a_log_in_use_is_left_alone(site: Site) -> None:
    with site.transaction() as connection:
        log(connection)
        sql(connection, "INSERT INTO public.people (id) VALUES (1)")
    with site.connect() as writer, site.transaction() as purger:
        sql(writer, "INSERT INTO public.people (id) VALUES (2)")
        slot = ring.full_slots(purger, "mlog$_people", "9223372036854775807")[0]
        assert not ring.empty_slot(purger, "mlog$_people", slot, "9223372036854775807")


def staged(connection: Connection, *changes: str) -> tuple[Staged, dict[str, int]]:
    """Changes of (id, name), staged as a push would stage them."""
    sql(
        connection,
        "CREATE TEMPORARY TABLE work"
        " (unit int, kind text, o1 int, o2 text, n1 int, n2 text)",
    )
    counts: dict[str, int] = {}
    for change in changes:
        sql(connection, f"INSERT INTO work VALUES (1, {change})")
        counts[change[1]] = counts.get(change[1], 0) + 1
    columns: list[sa.ColumnClause[object]] = [
        sa.column(name) for name in ("unit", "kind", "o1", "o2", "n1", "n2")
    ]
    one = Staged(
        table=describe(connection, PEOPLE),
        source=sa.table("work", *columns),
        columns=("id", "name"),
        identity=("id",),
    )
    return one, counts


def people(connection: Connection) -> list[tuple[object, ...]]:
    return sql(connection, "SELECT id, name FROM public.people ORDER BY id")


def test_unique_values_can_be_swapped(connection: Connection) -> None:
    sql(connection, "INSERT INTO public.people (id, name) VALUES (1, 'a'), (2, 'b')")
    change, counts = staged(connection, "'U', 1, 'a', 1, 'b'", "'U', 2, 'b', 2, 'a'")

    write.write(connection, [change], [counts], {"unit": 1})

    assert people(connection) == [(1, "b"), (2, "a")]


def test_a_unique_value_can_go_to_a_new_row(connection: Connection) -> None:
    sql(connection, "INSERT INTO public.people (id, name) VALUES (1, 'a')")
    change, counts = staged(
        connection, "'D', 1, 'a', NULL, NULL", "'I', NULL, NULL, 2, 'a'"
    )

    write.write(connection, [change], [counts], {"unit": 1})

    assert people(connection) == [(2, "a")]


def test_an_update_leaves_what_it_did_not_change(connection: Connection) -> None:
    sql(connection, "INSERT INTO public.people (id, name) VALUES (1, 'master')")
    change, counts = staged(connection, "'U', 1, 'old', 1, 'old'")

    write.write(connection, [change], [counts], {"unit": 1})

    assert people(connection) == [(1, "master")]


def test_a_row_that_is_not_there_is_noticed(connection: Connection) -> None:
    change, counts = staged(connection, "'U', 1, 'a', 1, 'b'")

    with pytest.raises(RowCountMismatch):
        write.write(connection, [change], [counts], {"unit": 1})
