"""Every type that the server offers, through everything that a value passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql

import deferred
import snapshots
from sites import Directory, Site
from sites.tables.definitions import UNREADABLE
from snapshots.differences import comparison
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import user
from tests.type_samples import SPELT, array, samples

pytestmark = pytest.mark.usefixtures("spark")

#: Types of base, range or multirange, with the schema they are in.
OFFERED = """
SELECT t.typname, t.typdelim
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.typtype IN ('b', 'r', 'm') AND t.typcategory <> 'A'
  AND n.nspname IN ('pg_catalog', 'public')
ORDER BY 1
"""

#: Types that are made of others.
OWN = """
CREATE EXTENSION vector;
CREATE TYPE mood AS ENUM ('glad', 'sad', 'it''s');
CREATE DOMAIN positive AS numeric CHECK (VALUE > 0);
CREATE DOMAIN small AS positive CHECK (VALUE < 100) DEFAULT 7;
CREATE TYPE pair AS (a small, b text, c mood[], d float8);
CREATE DOMAIN known AS pair CHECK (VALUE IS NULL OR (VALUE).a > 0);
CREATE TYPE moods AS RANGE (subtype = mood);
"""

OWN_SAMPLES = {
    "mood": ("glad", "it's"),
    "positive": ("1.0", "7", "1.00"),
    "small": ("1", "99.90"),
    "pair": ('(1,"a ""b"" , c",{glad},-0)', "(,,,)", "(1.10,x,,NaN)"),
    "known": ("(2,x,,1)", '(3,"",{},0)'),
    "moods": ("[glad,sad)", "empty"),
    "moods_multirange": ("{[glad,glad]}", "{}"),
}
#: Two tables hold them all.
PER_TABLE = 82
#: Rows that one of several transactions changes.
SOME = 20


@dataclass(frozen=True)
class Column:
    """A column of one type, and the values that its rows take in turn."""

    name: str
    type: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Wide:
    """A table of many types: row n has the n-th value of each, round and round."""

    name: str
    columns: tuple[Column, ...]

    @property
    def rows(self) -> range:
        """One row for each column."""
        return range(len(self.columns))

    @property
    def turn(self) -> range:
        """As many rows as each type has a turn in with each of its values."""
        return range(max(len(column.values) for column in self.columns))

    def some(self) -> Iterator[range]:
        """The rows, so many at a time as one transaction changes."""
        return (self.rows[n : n + SOME] for n in self.rows[::SOME])

    def create(self) -> str:
        columns = ", ".join(f'"{c.name}" {c.type}' for c in self.columns)
        return f'CREATE TABLE public."{self.name}" (id int PRIMARY KEY, {columns})'

    def insert(self, row: int) -> str:
        values = ", ".join(
            f"{_quoted(c.values[row % len(c.values)])}" for c in self.columns
        )
        return f'INSERT INTO public."{self.name}" VALUES ({row}, {values})'

    def update(self, row: int, step: int) -> str:
        """All columns of a row go so many values further."""
        values = ", ".join(
            f'"{c.name}" = {_quoted(c.values[(row + step) % len(c.values)])}'
            for c in self.columns
        )
        return f'UPDATE public."{self.name}" SET {values} WHERE id = {row}'

    def set(self, row: int, number: int) -> str:
        """The column that has the number of the row takes one of its values."""
        name = self.columns[row].name
        value = self.columns[row].values[number]
        return (
            f'UPDATE public."{self.name}" SET "{name}" = {_quoted(value)}'
            f" WHERE id = {row}"
        )


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _offered(site: Site) -> list[tuple[str, str]]:
    with user(site) as session:
        return session.execute(OFFERED).fetchall()


def _columns(site: Site, version: int) -> Iterator[Column]:
    for name, delimiter in _offered(site):
        if name in UNREADABLE or (name == "xml" and not _has_xml(site)):
            continue
        if name in OWN_SAMPLES:
            continue
        known = samples(name, version)
        yield from _both(name, known, delimiter)
    for name, known in OWN_SAMPLES.items():
        yield from _both(name, known, ",")


def _both(name: str, known: tuple[str, ...], delimiter: str) -> Iterator[Column]:
    """A column of a type, and one of its array."""
    kind = SPELT.get(name, name)
    arrays = tuple(array(known, n, delimiter) for n in range(4))
    yield Column(name, kind, known)
    yield Column(f"{name}[]", f"{kind}[]", arrays)


def _has_xml(site: Site) -> bool:
    with user(site) as session:
        try:
            session.execute("SELECT '<a/>'::xml")
        except psycopg.errors.FeatureNotSupported:
            return False
    return True


def contents(site: Site, table: Wide) -> list[tuple[object, ...]]:
    """The rows as the server prints them: identical, not only equal."""
    texts = sql.SQL(", ").join(
        sql.SQL("{}::text").format(sql.Identifier(c.name)) for c in table.columns
    )
    query = sql.SQL("SELECT id, {} FROM {} ORDER BY id").format(
        texts, sql.Identifier(table.name)
    )
    with user(site) as session:
        session.execute("SET extra_float_digits = 3")
        return session.execute(query).fetchall()


@pytest.fixture
def tables(sites: Directory, pg_version: int) -> list[Wide]:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, *OWN.split(";\n")[:-1])
    columns = list(_columns(hq, pg_version))
    made = [
        Wide(f"wide {n}", tuple(columns[n : n + PER_TABLE]))
        for n in range(0, len(columns), PER_TABLE)
    ]
    for table in made:
        run(
            hq,
            table.create(),
            *(table.insert(row) for row in table.rows),
        )
        log(hq, table.name)
        snapshots.create(jfk, table.name, master="hq", group="types", updatable=True)
    snapshots.refresh(jfk, "types")
    return made


def test_every_type(
    sites: Directory, tables: list[Wide], monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    assert_same(hq, jfk, tables)

    # Pushed in one transaction and in several: no conflict is seen.
    run(jfk, *(tables[0].update(row, 1) for row in tables[0].turn))
    for table in tables[1:]:
        for row in table.turn:
            run(jfk, table.update(row, 1))
    assert deferred.push(jfk).errors == 0
    assert_same(hq, jfk, tables)
    assert differences(jfk, tables, "f") == 0

    for step, (limit, method) in enumerate(
        [(50_000, "f"), (0, "f"), (50_000, "c"), (0, "c")], 2
    ):
        monkeypatch.setattr(comparison, "SMALL_WINDOW", limit)
        for table in tables:
            run(hq, *(table.update(row, step) for row in table.turn))
        assert differences(jfk, tables, method) > 0
        assert_same(hq, jfk, tables)
    assert differences(jfk, tables, "c") == 0

    conflict(hq, jfk, tables)


def conflict(hq: Site, jfk: Site, tables: list[Wide]) -> None:
    """Each type in a row of its own: in conflict, parked with others, and retried."""
    set_all(hq, tables, 0)
    assert differences(jfk, tables, "f") > 0
    set_all(hq, tables, 1)
    for table in tables:
        for rows in table.some():
            run(jfk, *(table.set(row, -1) for row in rows))
    deferred.push(jfk)
    parked = [deferred.show_error(hq, one.id) for one in deferred.list_errors(hq)]
    in_conflict = [call for one in parked for call in one.calls if call.conflict]
    assert len(in_conflict) == sum(len(table.rows) for table in tables)
    # What was in the way is taken back; the parked values are as they were written.
    set_all(hq, tables, 0)
    assert all(report.applied for report in deferred.retry_errors(hq))
    assert_same(hq, jfk, tables)


def set_all(site: Site, tables: list[Wide], number: int) -> None:
    """In each row, the column that has its number takes one of its values."""
    for table in tables:
        run(site, *(table.set(row, number) for row in table.rows))


def differences(site: Site, tables: list[Wide], method: str) -> int:
    """How many rows a refresh finds to differ."""
    report = snapshots.refresh(
        site, "types", push_deferred_rpc=False, method=method * len(tables)
    )
    return sum(one.updated + one.inserted + one.deleted for one in report.snapshots)


def assert_same(hq: Site, jfk: Site, tables: list[Wide]) -> None:
    for table in tables:
        assert contents(jfk, table) == contents(hq, table)
