"""Checks of names, values and tables that few expect."""

from typing import Any

import pytest

import snapshots
from sites import Directory
from sites.names import quoted
from snapshots import Kind, Reason
from tests.fix_sites import log
from tests.linked_table import as_refresh, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

#: Longer than a page by far; a bytea of them is twice as long as text.
LONG = 50 * 2**20


def test_values_of_fifty_megabytes(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, note text, blob bytea)",
        f"INSERT INTO public.t SELECT 1, repeat('x', {LONG}), '\\x00'",
        f"INSERT INTO public.t SELECT 2, 'n', decode(repeat('ff', {LONG // 2}), 'hex')",
        "INSERT INTO public.t VALUES (3, 'n', '\\x00')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    assert snapshots.check(jfk, "t").equal
    as_refresh(
        jfk,
        "UPDATE public.\"snap$_t\" SET note = note || 'y' WHERE id = 1",
        'UPDATE public."snap$_t"'
        f" SET blob = set_byte(blob, {LONG // 2 - 1}, 0) WHERE id = 2",
    )
    [one] = snapshots.check(jfk, "t").snapshots
    assert {row.key["id"]: row.columns for row in one.differences} == {
        "1": ("note",),
        "2": ("blob",),
    }
    long = next(row for row in one.differences if row.key["id"] == "1")
    assert str((long.here or {})["note"]).endswith(f"x… ({LONG + 1} characters)")


def test_a_table_of_two_hundred_columns(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    columns = [f"c{n} {('int', 'text', 'numeric')[n % 3]}" for n in range(200)]
    values = ", ".join("g" if n % 3 != 1 else "'v' || g" for n in range(200))
    run(
        hq,
        f"CREATE TABLE public.wide (id int PRIMARY KEY, {', '.join(columns)})",
        f"INSERT INTO public.wide SELECT g, {values} FROM generate_series(1, 500) g",
    )
    log(hq, "wide")
    snapshots.create(jfk, "wide", master="hq")
    refresh(jfk, "wide")
    assert snapshots.check(jfk, "wide").equal
    changed = ("c0", "c100", "c199")
    base = 'public."snap$_wide"'
    as_refresh(
        jfk,
        f"UPDATE {base} SET {', '.join(f'{c} = NULL' for c in changed)} WHERE id = 500",
    )
    [row] = snapshots.check(jfk, "wide").snapshots[0].differences
    assert (row.columns, row.reason) == (changed, Reason.UNEXPLAINED)


NAMES = ("a,b", 'qu"ote', "100%s", "né {0}", "c2", "$1", ":bind", "back\\slash")


def test_names_of_columns_and_two_tables_that_share_them(sites: Directory) -> None:
    """Each name is told as it is, also where rows of tables are compared together."""
    hq, jfk = sites["hq"], sites["jfk"]
    listed = ", ".join(f"{quoted(name)} text" for name in NAMES)
    for table in ('it"s, 5%', "né {0}"):
        name = quoted(table)
        run(
            hq,
            f"CREATE TABLE public.{name} ({listed}, PRIMARY KEY ({quoted(NAMES[0])}))",
            f"INSERT INTO public.{name} SELECT{', '.join([' g::text'] * len(NAMES))}"
            " FROM generate_series(1, 5) g",
        )
        log(hq, name)
        snapshots.create(jfk, name, master="hq", group="odd")
    refresh(jfk, "odd")
    bases = [
        "public." + quoted(base)
        for (base,) in run(
            jfk, "SELECT base_table FROM snaptide.snapshot ORDER BY name"
        )
    ]
    for base in bases:
        run(jfk, f"ALTER TABLE {base} DISABLE TRIGGER USER")
        for number, name in enumerate(NAMES[1:], 1):
            key = quoted(NAMES[0])
            change = f"{quoted(name)} = '100%, \"{{}}\" é'"
            run(jfk, f"UPDATE {base} SET {change} WHERE {key} = '{number % 5 + 1}'")
    for one in snapshots.check(jfk, "odd").snapshots:
        found: dict[str, Any] = {
            str(row.key[NAMES[0]]): row.columns for row in one.differences
        }
        assert found == {
            "2": (NAMES[1], NAMES[6]),
            "3": (NAMES[2], NAMES[7]),
            "4": (NAMES[3],),
            "5": (NAMES[4],),
            "1": (NAMES[5],),
        }
        assert {row.kind for row in one.differences} == {Kind.DIFFERS}
