"""A session that describes a table again is told only what has changed."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from sites import QualifiedName, Site
from sites.sessions import prepared
from sites.sessions.exchange import hold
from sites.tables.table import describe, find_table, question
from snaptide.embedded import PostgresServer
from tests import plans
from tests.linked_table import run

BAGS = QualifiedName("public", "bags")


@pytest.fixture
def bags(hq: Site) -> Site:
    run(hq, "CREATE TABLE bags (id int PRIMARY KEY, kg int)")
    return hq


def test_description_is_kept_while_it_holds(bags: Site) -> None:
    with bags.session() as session:
        first = describe(session, BAGS)
        session.rollback()
        run(bags, "INSERT INTO bags VALUES (1, 20)", "ANALYZE bags")
        assert describe(session, BAGS) is first


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE bags ADD place text",
        "ALTER TABLE bags ALTER kg SET NOT NULL",
        "ALTER TABLE bags ALTER kg TYPE bigint",
        "CREATE UNIQUE INDEX bags_kg ON bags (kg)",
        "ALTER TABLE bags ADD FOREIGN KEY (kg) REFERENCES bags",
        "CREATE RULE nothing AS ON INSERT TO bags DO INSTEAD NOTHING",
        "DROP TABLE bags; CREATE TABLE bags (id int PRIMARY KEY, kg int)",
    ],
)
def test_altered_table_is_described_anew(bags: Site, ddl: str) -> None:
    with bags.session() as session, bags.session() as another:
        first = describe(session, BAGS)
        session.rollback()
        run(bags, *ddl.split(";"))
        again = describe(session, BAGS)
        assert again != first
        assert again == describe(another, BAGS)


def test_dropped_table_is_gone(bags: Site) -> None:
    with bags.session() as session:
        describe(session, BAGS)
        session.rollback()
        run(bags, "DROP TABLE bags")
        assert find_table(session, BAGS) is None


def test_only_so_many_are_kept(bags: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "MOST_TABLES", 1)
    run(bags, "CREATE TABLE places (id int PRIMARY KEY)")
    with bags.session() as session:
        describe(session, BAGS)
        describe(session, QualifiedName("public", "places"))
        assert len(prepared.known_tables(session)) == 0
        assert describe(session, BAGS).names == ("id", "kg")


def test_what_was_asked_for_is_described_although_it_was_forgotten_meanwhile(
    bags: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when several tables are asked for, and one of them is one too many to keep."""
    with bags.session() as session:
        first = describe(session, BAGS)
        asked = hold(session, question(session, BAGS))
        monkeypatch.setattr(prepared, "MOST_TABLES", 1)
        assert describe(session, BAGS, asked) == first


@pytest.mark.parametrize(
    ("refers_to", "described", "followed"),
    [
        ("bags (id) ON UPDATE CASCADE", "bags", True),
        ("bags (id) ON DELETE CASCADE", "bags", False),
        ("weights (kg) ON UPDATE SET NULL", "weights", True),
        ("weights (kg) ON UPDATE SET NULL", "light", True),
        ("light (kg) ON UPDATE CASCADE", "weights", True),
        ("light (kg) ON UPDATE CASCADE", "heavy", False),
    ],
)
def test_foreign_keys_that_follow_a_column(
    bags: Site, refers_to: str, described: str, followed: bool
) -> None:
    """Also those to a partitioned table of which it is a part, or to a part of it."""
    run(
        bags,
        "CREATE TABLE weights (kg int PRIMARY KEY) PARTITION BY RANGE (kg)",
        "CREATE TABLE light PARTITION OF weights FOR VALUES FROM (0) TO (20)",
        "CREATE TABLE heavy PARTITION OF weights FOR VALUES FROM (20) TO (90)",
        f"CREATE TABLE labels (of int REFERENCES {refers_to})",
    )
    with bags.session() as session:
        first = describe(session, QualifiedName("public", described)).columns[0]
    assert first.followed is followed


def test_constraints_of_a_table_are_found_among_many(
    bags: Site, server: PostgresServer
) -> None:
    """A database with many tables describes one of them as quickly."""
    # With names: to find a free one, PostgreSQL tries all that are taken.
    checks = ", ".join(f"CONSTRAINT c{n} CHECK (n > {n})" for n in range(3_000))
    run(bags, f"CREATE TABLE many (n int, {checks})", "ANALYZE pg_constraint")
    with plans.logged(server.log, {"hq": bags}) as read, bags.session() as session:
        describe(session, BAGS)
        session.rollback()
        constraints = session.scalar(text("SELECT 'pg_constraint'::regclass::oid::int"))
    assert constraints not in read.scanned()
