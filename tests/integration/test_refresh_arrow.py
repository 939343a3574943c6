"""Refreshes of more rows than a few, which this process reads as Arrow tables."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy.event import listen, remove

import snapshots
from sites import Directory, Site
from sites.conditions.ranges import rows_within
from sites.names import QualifiedName
from sites.sessions import exchange
from snapshots import keys
from snapshots.differences import comparison, large
from snapshots.keys import Sides
from snapshots.refreshing import moments
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

ALL = "SELECT * FROM public.t ORDER BY k, n"


@pytest.fixture
def pair(sites: Directory, monkeypatch: pytest.MonkeyPatch) -> Directory:
    """A table whose keys, texts and bytes are what quoting is for."""
    # Few are five, and the statements take 20 keys each.
    for module in (keys, comparison):
        monkeypatch.setattr(module, "FEW", 5)
    monkeypatch.setattr(keys, "CHUNK", 20)
    monkeypatch.setattr(large, "prepare", lambda *_: pytest.fail("executors"))
    run(
        sites["hq"],
        "CREATE TABLE public.t (k text, n numeric, b boolean, y bytea, s varchar(9),"
        " i int[], PRIMARY KEY (k, n))",
        r"""INSERT INTO public.t SELECT
          (ARRAY['', '"', '\', '{a,b}', E'\n\\.\n', 'NULL', 'é %s'])[i % 7 + 1], i,
          NULLIF(i % 3, 0) = 1, decode(lpad(to_hex(i), 4, '0'), 'hex'),
          (ARRAY[NULL, '', '"', E'a\r\nb', ',', '\N'])[i % 6 + 1], ARRAY[[i, NULL]]
        FROM generate_series(1, 90) i""",
    )
    log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    refresh(sites["jfk"], "t")
    return sites


def change(hq: Site) -> None:
    run(
        hq,
        r"UPDATE public.t SET b = NOT b, y = y || '\x22'::bytea, i = NULL"
        " WHERE n <= 30",
        "UPDATE public.t SET s = NULLIF('', s) WHERE n BETWEEN 31 AND 60",
        "DELETE FROM public.t WHERE n > 80",
        "INSERT INTO public.t SELECT k, n + 100, NULL, '', '', '{}' FROM public.t"
        " WHERE n <= 10",
    )


@pytest.mark.parametrize("method", ["f", "c"])
def test_all_values_arrive(pair: Directory, method: str) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    change(hq)
    done = refresh(jfk, "t", method=method, allow_mass_delete=True)["t"]
    assert (done.inserted, done.deleted, done.held_back) == (10, 10, 0)
    assert run(jfk, ALL) == run(hq, ALL)
    assert refresh(jfk, "t", method=method)["t"].updated == 0


def test_key_that_the_sites_spell_differently_is_one_row(pair: Directory) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    run(jfk, "UPDATE public.t SET b = NULL WHERE n <= 25")
    run(jfk, "INSERT INTO public.t (k, n, s) VALUES ('new', 1.50, 'mine')")
    run(hq, "INSERT INTO public.t (k, n, s) VALUES ('new', 1.5, 'theirs')")
    run(hq, "UPDATE public.t SET s = 'both' WHERE n <= 25")
    run(hq, "DELETE FROM public.t WHERE n BETWEEN 26 AND 28")
    done = refresh(jfk, "t", push_deferred_rpc=False)["t"]
    # The changes of the site are pending: each of these rows is held back, once.
    assert (done.held_back, done.deleted) == (26, 3)


def test_wide_rows_are_left_to_executors(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE TABLE public.wide (id int PRIMARY KEY, v text)",
        "ALTER TABLE public.wide ALTER v SET STORAGE EXTERNAL",
        "INSERT INTO public.wide SELECT i, repeat('x', 10000)"
        " FROM generate_series(1, 100) i",
    )
    wide = QualifiedName("public", "wide")
    with sites["hq"].session() as connection:
        assert rows_within(connection, wide, 2**22) == math.inf
        # PostgreSQL publishes what a session has counted a moment later.
        assert rows_within(connection, wide, 2**20) < 105
    run(sites["hq"], "ANALYZE public.wide")
    with sites["hq"].session() as connection:
        # 10 kB and what lies around it.
        assert 50 < rows_within(connection, wide, 2**20) < 105


def test_windows_that_have_few_keys_and_wide_rows_are_read_one_by_one(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk, names = sites["hq"], sites["jfk"], ["a", "b", "c"]
    for name in names:
        run(
            hq,
            f"CREATE TABLE public.{name} (id int PRIMARY KEY, n int, v text)",
            f"ALTER TABLE public.{name} ALTER v SET STORAGE EXTERNAL",
            f"INSERT INTO public.{name} SELECT i, 0, repeat('x', 10000)"
            " FROM generate_series(1, 20) i",
        )
        log(hq, name)
        snapshots.create(jfk, name, master="hq", group="wide")
    refresh(jfk, "wide")
    read = Sides.read_apart
    together: list[int] = []

    def noted(sides: Sides, wanted: Sequence[Any]) -> Any:
        together.append(len(wanted))
        return read(sides, wanted)

    monkeypatch.setattr(Sides, "read_apart", noted)
    # What a window has of both sides is 400 kB.
    for most, expected in ((2**22, [3]), (2**19, [1, 1, 1])):
        for module in (comparison, moments):
            monkeypatch.setattr(module, "MOST_BYTES", most)
        run(hq, *(f"UPDATE public.{name} SET n = n + 1" for name in names))
        together.clear()
        assert {one.updated for one in refresh(jfk, "wide").values()} == {20}
        assert together == expected


def test_a_group_of_many_tables_asks_the_master_no_more_often(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    groups = {"two": ["a", "b"], "six": ["c", "d", "e", "f", "g", "h"]}
    for group, names in groups.items():
        for name in names:
            run(
                hq,
                f"CREATE TABLE public.{name} (id int PRIMARY KEY, n int)",
                f"INSERT INTO public.{name} VALUES (1, 0), (2, 0)",
            )
            log(hq, name)
            snapshots.create(jfk, name, master="hq", group=group)
        refresh(jfk, group)
    start, count = exchange._start, Counter[str]()

    def counted(driver: exchange.Driver, *asked: Any, **how: Any) -> None:
        count["exchanges"] += driver.info.dbname == hq.url.database
        start(driver, *asked, **how)

    def by_cursor(*_: object) -> None:
        count["statements"] += 1

    monkeypatch.setattr(exchange, "_start", counted)
    listen(hq.engine, "before_cursor_execute", by_cursor)
    seen = []
    for group, names in groups.items():
        run(hq, *(f"UPDATE public.{name} SET n = 1 WHERE id = 2" for name in names))
        count.clear()
        assert {one.updated for one in refresh(jfk, group).values()} == {1}
        seen.append(dict(count))
    remove(hq.engine, "before_cursor_execute", by_cursor)
    assert seen[0]["exchanges"] > 5
    assert seen[0] == seen[1]
