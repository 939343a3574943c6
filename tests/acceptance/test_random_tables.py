"""Random tables of random types and values: what a site writes is what all see.

SNAPTIDE_TABLES=1000 makes it last; the run prints the table that fails.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import deferred
import snapshots
from sites import Directory, Site
from sites.names import quoted
from snapshots.definitions.errors import CannotPark
from snapshots.differences import comparison
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh, user
from tests.type_samples import SAMPLES, SPELT, array, samples

pytestmark = pytest.mark.usefixtures("spark")

#: Types that keys can have: with a B-tree, and values that two rows cannot share.
KEYS = (
    "bpchar", "bytea", "date", "float8", "inet", "int4", "int4range", "int8",
    "interval", "jsonb", "name", "numeric", "oid", "pg_lsn", "text", "timestamptz",
    "timetz", "tsvector", "uuid", "varbit", "varchar", "xid8",
)  # fmt: skip
#: Not the extension's: it is in one test alone. Not what another server lacks.
OTHERS = sorted(SAMPLES.keys() - {"halfvec", "sparsevec", "vector", "xml"})

_texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40
)
#: Beside the samples: values that nobody thought of.
RANDOM = {
    "bytea": st.binary(max_size=40).map(lambda value: "\\x" + value.hex()),
    "float4": st.floats(width=32).map(repr),
    "float8": st.floats().map(repr),
    "int4": st.integers(-(2**31), 2**31 - 1).map(str),
    "int8": st.integers(-(2**63), 2**63 - 1).map(str),
    "numeric": st.decimals(allow_nan=True, allow_infinity=False).map(
        lambda value: "NaN" if value.is_nan() else str(value)
    ),
    "text": _texts,
    "timestamptz": st.datetimes().map(lambda value: f"{value.isoformat()}+00"),
    "uuid": st.uuids().map(str),
}

_numbers = itertools.count()


@dataclass(frozen=True)
class Shape:
    """A table: its columns by name, the key first."""

    types: tuple[str, ...]
    key: int
    names: tuple[str, ...]
    with_rowid: bool
    #: text form of a value, or None, by row and column; keys are never NULL
    values: tuple[tuple[str | None, ...], ...]

    def create(self, table: str) -> str:
        columns = ", ".join(
            f"{quoted(n)} {_spelt(t)}"
            for n, t in zip(self.names, self.types, strict=True)
        )
        key = ", ".join(quoted(n) for n in self.names[: self.key])
        return f"CREATE TABLE public.{table} ({columns}, PRIMARY KEY ({key}))"


def _spelt(kind: str) -> str:
    base = kind.removesuffix("[]")
    return SPELT.get(base, base) + kind[len(base) :]


def _value(kind: str, version: int) -> st.SearchStrategy[str]:
    base = kind.removesuffix("[]")
    known = samples(base, version)
    if base != kind:
        delimiter = ";" if base == "box" else ","
        return st.integers(0, 30).map(lambda at: array(known, at, delimiter))
    return st.one_of(st.sampled_from(known), RANDOM.get(kind, st.nothing()))


@st.composite
def shapes(draw: st.DrawFn, version: int) -> Shape:
    key = draw(st.integers(1, 3))
    kinds = st.sampled_from(OTHERS)
    types = (
        *(draw(st.sampled_from(KEYS)) for _ in range(key)),
        *draw(st.lists(st.one_of(kinds, kinds.map("{}[]".format)), max_size=12)),
    )
    names = draw(
        st.lists(
            _texts.filter(lambda n: 0 < len(n.encode()) < 60 and n != "snaptide_rowid"),
            min_size=len(types),
            max_size=len(types),
            unique=True,
        )
    )
    columns = [
        _value(kind, version) if at < key else st.none() | _value(kind, version)
        for at, kind in enumerate(types)
    ]
    values = draw(st.lists(st.tuples(*columns), min_size=1, max_size=8))
    return Shape(types, key, tuple(names), draw(st.booleans()), tuple(values))


@settings(
    max_examples=int(os.environ.get("SNAPTIDE_TABLES", "4")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # To shrink takes as long again as to find, many times over.
    phases=[Phase.generate],
    database=None,
)
@given(data=st.data())
def test_random_tables(sites: Directory, pg_version: int, data: st.DataObject) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    shape = data.draw(shapes(pg_version))
    table = f"t{next(_numbers)}"
    note(shape.create(table))
    run(hq, shape.create(table))
    log(hq, table, with_rowid=shape.with_rowid)
    half = len(shape.values) // 2
    _insert(hq, table, shape, shape.values[:half])
    try:
        snapshots.create(jfk, table, master="hq", updatable=True)
    except CannotPark:
        # Its unique values cannot be moved from row to row: refused, with the reason.
        return
    refresh(jfk, table)
    _assert_same(sites, table)

    _insert(jfk, table, shape, shape.values[half:])
    for row in data.draw(st.permutations(shape.values)):
        other = data.draw(st.sampled_from(shape.values))
        at = data.draw(st.integers(0, len(shape.types) - 1))
        where = data.draw(st.sampled_from([jfk, jfk, hq]))
        if where is hq:
            # What the master does not know yet could be in conflict.
            assert deferred.push(jfk).errors == 0
        _update(where, table, shape, at, row, other[at])
        if where is hq:
            refresh(jfk, table, allow_mass_delete=True)
    assert deferred.push(jfk).errors == 0
    _assert_same(sites, table)

    small = comparison.SMALL_WINDOW
    comparison.SMALL_WINDOW = data.draw(st.sampled_from([0, small]))
    try:
        done = refresh(jfk, table, method="c", allow_mass_delete=True)[table]
    finally:
        comparison.SMALL_WINDOW = small
    assert (done.inserted, done.updated, done.deleted) == (0, 0, 0)
    _delete_one(jfk, table)
    assert deferred.push(jfk).errors == 0
    _assert_same(sites, table)


def _insert(
    site: Site, table: str, shape: Shape, new: tuple[tuple[str | None, ...], ...]
) -> None:
    columns = ", ".join(map(quoted, shape.names)).replace("%", "%%")
    places = ", ".join(["%s"] * len(shape.names))
    with user(site) as session:
        for row in new:
            session.execute(
                f"INSERT INTO public.{table} ({columns}) VALUES ({places})"
                " ON CONFLICT DO NOTHING",
                row,
            )
        session.commit()


def _update(
    site: Site,
    table: str,
    shape: Shape,
    at: int,
    row: tuple[str | None, ...],
    value: str | None,
) -> None:
    """Set one column of the row with a key; a key that is taken is left alone."""
    column = quoted(shape.names[at]).replace("%", "%%")
    same = " AND ".join(
        quoted(n).replace("%", "%%") + " = %s" for n in shape.names[: shape.key]
    )
    with user(site) as session:
        try:
            session.execute(
                f"UPDATE public.{table} SET {column} = %s WHERE {same}",
                (value, *row[: shape.key]),
            )
        except psycopg.errors.UniqueViolation:
            session.rollback()
        session.commit()


def _delete_one(site: Site, table: str) -> None:
    run(
        site,
        f'DELETE FROM public."snap$_{table}" WHERE ctid ='
        f' (SELECT min(ctid) FROM public."snap$_{table}")',
    )


def _assert_same(sites: Directory, table: str) -> None:
    texts = f'SELECT t::text FROM public.{table} t ORDER BY t::text COLLATE "C"'
    assert run(sites["jfk"], texts) == run(sites["hq"], texts)
