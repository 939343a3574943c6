"""Values that PostgreSQL treats as equal, or prints alike elsewhere, are told apart.

The databases have other settings for how values are printed.
"""

import pytest

import groups
import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import as_refresh, run
from tests.stories import refresh
from tests.three_masters import unseen

pytestmark = pytest.mark.usefixtures("spark")

#: By type, a value, and another: mostly one that is equal to it.
VALUES = {
    "numeric": ("1.0", "1.00"),
    "numeric[]": ("'{1.0,NULL}'", "'{1.00,NULL}'"),
    "public.pair": ("'(1.0,x)'", "'(1.00,x)'"),
    "public.amount": ("1.0", "1.00"),
    "numrange": ("'[1.0,2)'", "'[1.00,2)'"),
    "jsonb": ("'{\"a\": 1.0}'", "'{\"a\": 1.00}'"),
    "json": ("'{\"a\":1}'", "'{\"a\": 1}'"),
    "real": ("'0'", "'-0'"),
    "float8[]": ("'{0.1,NaN}'", "'{-0,NaN}'"),
    "interval": ("'24:00:00'", "'1 day'"),
    "timetz": ("'10:00+01'", "'09:00+00'"),
    "timestamptz": ("'2026-01-01'", "'infinity'"),
    "date": ("'0044-03-15 BC'", "'2026-01-02'"),
    "bpchar": ("'a'", "'a '"),
    "varbit": ("'101'", "'1010'"),
    "inet": ("'10.0.0.1'", "'10.0.0.1/31'"),
    "public.mood": ("'sad'", "'ok'"),
    "tsvector": ("'a:1'", "'a:2'"),
    "box": ("'(2,2),(0,0)'", "'(4,1),(0,0)'"),
    "point": ("'(0,0)'", "'(-0,0)'"),
    '"char"': ("'a'", "'b'"),
    "bytea": ("''", "NULL"),
    "text": ("''", "NULL"),
    "varchar(9)": (r"E'a\r\nb'", r"E'a\nb'"),
    "text[]": ("'{}'", "'{NULL}'"),
    "int[]": ("'[0:1]={1,2}'", "'{1,2}'"),
}
#: How often as many rows as there are types: some stay as they are.
ROWS = 2
SETTINGS = (
    "datestyle = 'SQL, DMY'",
    "intervalstyle = 'iso_8601'",
    "timezone = 'Asia/Tokyo'",
    "bytea_output = 'escape'",
    "extra_float_digits = 0",
    "quote_all_identifiers = on",
)
COLUMNS = {f"c{number}": kind for number, kind in enumerate(VALUES, 1)}


TYPES = (
    "CREATE TYPE public.pair AS (n numeric, t text)",
    "CREATE DOMAIN public.amount AS numeric CHECK (VALUE > 0)",
    "CREATE TYPE public.mood AS ENUM ('sad', 'ok')",
)
TABLE = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
CREATE = f"CREATE TABLE public.t (id int PRIMARY KEY, {TABLE})"
FIRST = ", ".join(value for value, _ in VALUES.values())
FILL = (
    f"INSERT INTO public.t SELECT g, {FIRST}"
    f" FROM generate_series(1, {len(VALUES) * ROWS}) g"
)


def _otherwise(site: Site) -> None:
    [(database,)] = run(site, "SELECT current_database()")
    for setting in SETTINGS:
        run(site, f'ALTER DATABASE "{database}" SET {setting}')


def _changes(table: str) -> list[str]:
    """The row of each number gets the other value in the column of that number."""
    return [
        f"UPDATE {table} SET c{number} = {other} WHERE id = {number}"
        for number, (_, other) in enumerate(VALUES.values(), 1)
    ]


#: The columns that differ, by key.
WANTED = {str(number): (f"c{number}",) for number, _ in enumerate(VALUES, 1)}


def test_a_snapshot(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, *TYPES, CREATE, FILL)
    run(jfk, *TYPES)
    _otherwise(jfk)
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    assert snapshots.check(jfk, "t").equal
    as_refresh(jfk, *_changes('public."snap$_t"'))
    report = snapshots.check(jfk, "t")
    [one] = report.snapshots
    assert report.unexplained == len(VALUES)
    assert {str(row.key["id"]): row.columns for row in one.differences} == WANTED
    assert snapshots.rectify(jfk, "t", reference="site").mended == len(VALUES)
    assert snapshots.check(jfk, "t").equal
    changed = "SELECT c1::text, c4::text FROM public.t WHERE id IN (1, 4) ORDER BY id"
    assert run(hq, changed) == [("1.00", "1.0"), ("1.0", "1.00")]


KEYED = "CREATE TABLE public.t (k public.pair PRIMARY KEY, v int)"


def test_a_key_with_a_null_inside(sites: Directory) -> None:
    """PostgreSQL says of such a value that it IS NOT NULL is false."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, *TYPES)
    run(
        hq,
        *TYPES,
        KEYED,
        "INSERT INTO public.t VALUES ('(1,a)', 1), ('(2,)', 2), ('(3,)', 3)",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    as_refresh(
        jfk,
        "DELETE FROM public.\"snap$_t\" WHERE k = '(2,)'::public.pair",
        "UPDATE public.\"snap$_t\" SET v = 4 WHERE k = '(3,)'::public.pair",
    )
    assert snapshots.rectify(jfk, "t", reference="site").mended == 2
    assert run(hq, "SELECT v FROM public.t ORDER BY k") == [(1,), (4,)]


def test_masters_of_a_group(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, *TYPES, CREATE)
    _otherwise(jfk)
    found_group(sites, "hq", "jfk", tables=("t",))
    run(hq, FILL)
    push_all(sites)
    assert groups.check(hq, GROUP).equal
    unseen(jfk, *_changes("t"))
    report = groups.check(hq, GROUP)
    [one] = report.tables
    assert report.unexplained == len(VALUES)
    assert {str(row.key["id"]): row.columns for row in one.differences} == WANTED
    assert groups.rectify(hq, GROUP, reference="jfk").mended == len(VALUES)
    assert groups.check(hq, GROUP).equal


def test_a_key_with_a_null_inside_at_masters(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, *TYPES, KEYED)
    found_group(sites, "hq", "jfk", tables=("t",))
    run(hq, "INSERT INTO public.t VALUES ('(1,a)', 1), ('(3,)', 3)")
    push_all(sites)
    unseen(jfk, "UPDATE t SET v = 4 WHERE k = '(3,)'::public.pair")
    assert groups.rectify(hq, GROUP, reference="hq").mended == 1
    for site in (hq, jfk):
        assert run(site, "SELECT v FROM public.t ORDER BY k") == [(1,), (3,)]
