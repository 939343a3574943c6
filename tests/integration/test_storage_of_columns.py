"""Columns whose storage users have set, at the master and at sites."""

from __future__ import annotations

from pathlib import Path

import pytest

import deferred
import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

BASE = 'public."snap$_doc"'

_EXTERNAL = "ALTER TABLE {} ALTER COLUMN body SET STORAGE EXTERNAL"
_INSERT = (
    "INSERT INTO public.doc SELECT i, repeat(i || ' ', 4000)"
    " FROM generate_series({}, {}) i"
)
_STORAGE = (
    "SELECT attstorage::text FROM pg_attribute"
    " WHERE attrelid = '{}'::regclass AND attname = 'body'"
)
_COMPRESSED = "SELECT id FROM {} WHERE pg_column_compression(body) IS NOT NULL"


@prepared_once("hq", "jfk", "lax", needs="spark")
def sites(sites: Directory) -> None:
    """Empty snapshots whose column `body` is to be kept without compression."""
    run(
        sites["hq"],
        "CREATE TABLE public.doc (id int PRIMARY KEY, body text)",
        _EXTERNAL.format("public.doc"),
        _INSERT.format(1, 20),
    )
    log(sites["hq"], "doc")
    for name in ("jfk", "lax"):
        snapshots.create(sites[name], "doc", master="hq", updatable=True)
        run(sites[name], _EXTERNAL.format(BASE))


def compressed(site: Site) -> list[int]:
    return [id_ for (id_,) in run(site, f"{_COMPRESSED.format(BASE)} ORDER BY 1")]


def test_first_loads_and_images_keep_the_storage_and_merges_the_values(
    sites: Directory, tmp_path: Path
) -> None:
    hq, jfk, lax = (sites[name] for name in ("hq", "jfk", "lax"))
    refresh(jfk, "doc")
    snapshots.make_image(hq, tmp_path / "image", ["doc"])
    snapshots.load_image(lax, "doc", tmp_path / "image")
    assert compressed(jfk) == compressed(lax) == []
    run(hq, "UPDATE public.doc SET body = body || 'y' WHERE id = 1")
    run(jfk, "UPDATE public.doc SET body = body || 'z' WHERE id = 2")
    run(lax, _INSERT.format(21, 21))
    for site in (jfk, lax, jfk):
        deferred.push(site)
        refresh(site, "doc")
    run(hq, "UPDATE public.doc SET body = body || 'w' WHERE id = 3")
    snapshots.refresh(jfk, "doc", method="c")
    for site in (jfk, lax):
        assert run(site, _STORAGE.format(BASE)) == [("e",)]
        refresh(site, "doc")
        assert_equal_to_master(site)
    assert run(hq, _STORAGE.format("public.doc")) == [("e",)]
    # PostgreSQL takes a value as the work table has it, which is compressed.
    assert compressed(jfk) == [1, 3, 21]


def test_a_first_load_names_columns_that_keep_long_values_in_the_row(
    sites: Directory,
) -> None:
    jfk = sites["jfk"]
    run(jfk, f"ALTER TABLE {BASE} ALTER COLUMN body SET STORAGE PLAIN")
    with pytest.raises(snapshots.RowTooLong) as refused:
        refresh(jfk, "doc")
    assert refused.value.facts == {"table": "snap$_doc", "columns": ("body",)}
    assert "row is too big" in refused.value.message
    assert "Traceback" not in refused.value.message
    run(jfk, f"ALTER TABLE {BASE} ALTER COLUMN body SET STORAGE EXTENDED")
    refresh(jfk, "doc")
    assert_equal_to_master(jfk)
