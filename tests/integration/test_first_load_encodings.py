"""First loads between databases of other encodings: the same texts, or a refusal.

Where a table has bytes, rows travel in PostgreSQL's binary format, texts among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import snapshots
from sites import Directory, Site
from snapshots.spark.errors import LoadFailed
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

MakeSites = Callable[..., Directory]

#: Two texts that are one and the same bytes, by another encoding each.
LATIN, UTF = "é", "Ã©"
#: A character that LATIN1 lacks.
LOST = "Ł"

#: Rows of a table with bytes, and of one without them.
TABLES = {
    "in binary": "id int PRIMARY KEY, name text, photo bytea",
    "as text": "id int PRIMARY KEY, name text, photo int",
}


def _create(hq: Site, columns: str, *names: str) -> None:
    photo = "'\\xe9c3a900'" if "bytea" in columns else "7"
    values = ", ".join(
        f"({number}, '{name}', {photo})" for number, name in enumerate(names, 1)
    )
    run(
        hq,
        f"CREATE TABLE public.person ({columns})",
        f"INSERT INTO public.person VALUES {values}",
    )
    log(hq, "person")


def _names(site: Site) -> list[tuple[Any, ...]]:
    """The texts, and the bytes beside them, of a table or snapshot."""
    return run(site, "SELECT id, name, photo FROM public.person ORDER BY 1")


@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("latin", ["hq", "jfk"])
def test_texts_are_the_same_by_other_bytes(
    with_latin: MakeSites, columns: str, latin: str
) -> None:
    other = "jfk" if latin == "hq" else "hq"
    sites = with_latin(latin, other)
    hq, jfk = sites["hq"], sites["jfk"]
    assert run(sites[latin], "SHOW server_encoding") == [("LATIN1",)]
    _create(hq, columns, LATIN, UTF, f"{LATIN}{UTF}", "plain")
    snapshots.create(jfk, "person", master="hq", updatable=True)
    refresh(jfk, "person")
    assert _names(jfk) == _names(hq)
    assert [row[1] for row in run(jfk, "SELECT id, name FROM person ORDER BY 1")] == [
        *(LATIN, UTF, f"{LATIN}{UTF}", "plain")
    ]
    for method in ("f", "c"):
        run(hq, f"UPDATE person SET name = name || '{LATIN}' WHERE id < 3")
        snapshots.refresh(jfk, "person", method=method)
        assert _names(jfk) == _names(hq)
    assert snapshots.refresh(jfk, "person", method="c").snapshots[0].updated == 0


@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
def test_a_text_that_the_site_cannot_hold_is_refused(
    with_latin: MakeSites, columns: str
) -> None:
    sites = with_latin("jfk", "hq")
    hq, jfk = sites["hq"], sites["jfk"]
    _create(hq, columns, "plain", LOST)
    snapshots.create(jfk, "person", master="hq")
    with pytest.raises(LoadFailed, match="has no equivalent in encoding"):
        refresh(jfk, "person")
    assert run(jfk, 'SELECT count(*) FROM public."snap$_person"') == [(0,)]
    run(hq, f"UPDATE person SET name = '{LATIN}' WHERE id = 2")
    refresh(jfk, "person")
    assert _names(jfk) == _names(hq)


@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
def test_a_key_of_a_condition_is_read_as_it_is_written(
    with_latin: MakeSites, columns: str
) -> None:
    sites = with_latin("hq", "jfk")
    hq, jfk = sites["hq"], sites["jfk"]
    _create(hq, columns, LATIN, UTF, "plain")
    snapshots.create(jfk, "person", master="hq", where=f"name = '{LATIN}'")
    refresh(jfk, "person")
    assert [row[1] for row in _names(jfk)] == [LATIN]
