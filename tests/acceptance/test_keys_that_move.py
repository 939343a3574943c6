"""Keys, unique values and parents that move: through push, apply, refresh and merge."""

from collections.abc import Callable

import pytest

import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, push_and_refresh, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

TABLES = (
    "CREATE TABLE public.p (id int PRIMARY KEY, u int UNIQUE, v text)",
    (
        "CREATE TABLE public.c (id int PRIMARY KEY, v text,"
        " p int REFERENCES public.p ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE public.g (id int PRIMARY KEY,"
        " c int NOT NULL REFERENCES public.c ON DELETE CASCADE)"
    ),
    # The highest keys first, so that one statement can move them all by one.
    "INSERT INTO public.p SELECT i, i, 'p' || i FROM generate_series(9, 1, -1) i",
    (
        "INSERT INTO public.c SELECT i, 'c' || i, i FROM generate_series(9, 1, -1) i"
        " WHERE i NOT IN (1, 2, 3)"
    ),
    "INSERT INTO public.g SELECT i, i FROM generate_series(6, 8) i",
)

#: Each changes something, at the site or at the master, in one transaction.
MOVES = {
    "a primary key": ("UPDATE public.p SET id = 20 WHERE id = 1",),
    "a chain in one statement": (
        "UPDATE public.p SET id = id + 1 WHERE id >= 9",
        "DELETE FROM public.p WHERE id = 4",
        "UPDATE public.p SET id = id + 1 WHERE id IN (2, 3)",
    ),
    "keys swapped": (
        "UPDATE public.p SET id = -1 WHERE id = 1",
        "UPDATE public.p SET id = 1 WHERE id = 2",
        "UPDATE public.p SET id = 2 WHERE id = -1",
    ),
    "a key round and round": (
        "UPDATE public.p SET id = 30 WHERE id = 1",
        "UPDATE public.p SET id = 31 WHERE id = 30",
        "UPDATE public.p SET id = 1, v = 'back' WHERE id = 31",
    ),
    "a key taken over": (
        "DELETE FROM public.p WHERE id = 1",
        "UPDATE public.p SET id = 1 WHERE id = 2",
    ),
    "unique values swapped": (
        "UPDATE public.p SET u = NULL WHERE id = 1",
        "UPDATE public.p SET u = 1 WHERE id = 2",
        "UPDATE public.p SET u = 2 WHERE id = 1",
    ),
    "unique values in a ring": (
        "UPDATE public.p SET u = -u WHERE id <= 5",
        "UPDATE public.p SET u = -u % 5 + 1 WHERE id <= 5",
    ),
    "a unique value of a row that goes": (
        "DELETE FROM public.p WHERE id = 1",
        "INSERT INTO public.p VALUES (40, 1, 'new')",
        "UPDATE public.p SET u = 8000 WHERE id = 2",
        "INSERT INTO public.p VALUES (41, 2, 'new')",
    ),
    "children of a new parent": (
        "INSERT INTO public.p VALUES (50, 50, 'new')",
        "INSERT INTO public.c VALUES (50, 'new', 50), (51, 'new', 50)",
        "INSERT INTO public.g VALUES (50, 50)",
        "UPDATE public.c SET p = 50 WHERE id = 4",
    ),
    "a cascade": ("DELETE FROM public.p WHERE id IN (6, 7)",),
    "a cascade of keys": ("UPDATE public.p SET id = 60 WHERE id = 6",),
    "a family that goes, youngest first": (
        "DELETE FROM public.g WHERE id = 6",
        "DELETE FROM public.c WHERE id = 6",
        "DELETE FROM public.p WHERE id = 6",
    ),
    "a child that is saved": (
        "UPDATE public.c SET p = 5 WHERE id = 6",
        "DELETE FROM public.p WHERE id = 6",
    ),
    "a child that is saved from a parent that comes back": (
        "UPDATE public.c SET p = 5 WHERE id = 6",
        "DELETE FROM public.p WHERE id = 6",
        "INSERT INTO public.p VALUES (6, 600, 'again')",
        "UPDATE public.c SET p = 6 WHERE id = 7",
    ),
    "a family that goes and comes back": (
        "DELETE FROM public.p WHERE id = 6",
        "INSERT INTO public.p VALUES (6, 6, 'again')",
        "INSERT INTO public.c VALUES (6, 'again', 6), (70, 'new', 6)",
    ),
}


@pytest.fixture
def family(sites: Directory) -> Directory:
    """Parents, children and grandchildren at hq, all updatable at jfk."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, *TABLES)
    log(hq, "p", "c", "g")
    for name in ("g", "c", "p"):
        snapshots.create(jfk, name, master="hq", group="family", updatable=True)
    refresh(jfk, "family")
    return sites


@pytest.fixture
def contents() -> Callable[[Site], list[list[tuple[object, ...]]]]:
    def contents(site: Site) -> list[list[tuple[object, ...]]]:
        queries = ("p ORDER BY id", "c ORDER BY id", "g ORDER BY id")
        return [run(site, f"SELECT * FROM public.{query}") for query in queries]

    return contents


@pytest.mark.parametrize("where", ["hq", "jfk"])
def test_moves(family: Directory, contents, where: str) -> None:
    """One after the other on the same tables, each held against plain PostgreSQL."""
    jfk = family["jfk"]
    for name, statements in MOVES.items():
        run(family["hq"], *_begin_anew())
        settle(jfk)
        assert contents(jfk) == contents(family["hq"]), f"before {name}"
        run(family[where], *statements)
        wanted = contents(family[where])
        pushed = push_and_refresh(jfk, "family")
        assert pushed.errors == 0, name
        assert contents(jfk) == contents(family["hq"]) == wanted, name
        assert_equal_to_master(jfk)


def _begin_anew() -> tuple[str, ...]:
    """Statements that bring the tables, whatever they hold, back to their beginning."""
    return (
        "DELETE FROM public.p",
        "DELETE FROM public.c",
        *(s for s in TABLES if s.startswith("INSERT")),
    )
