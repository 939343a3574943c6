"""Images of odd tables and texts, and images that change while they are loaded."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import masters
import snapshots
from sites import Directory, Site, faults
from snapshots.errors import RefreshRunning
from tests.at_point import AtPoint
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.imaged import create, make
from tests.imaged import master as master
from tests.linked_table import run, scalar
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

MakeSites = Callable[..., Directory]

#: Of a schema, of tables and of their columns, as the catalog has them.
SCHEMA = 'a "b" c.d'
TABLES = ["Ü = % :x {}", "x" * 63, "ß" * 31, "select"]
COLUMNS = ["a b", 'q"u', "é\tü", "%s", ":v", "\\.", "y" * 63, "ß" * 31, "order"]


def quoted(name: str) -> str:
    """As in SQL, and as commands read it."""
    return '"' + name.replace('"', '""') + '"'


def odd(name: str) -> str:
    return f"{quoted(SCHEMA)}.{quoted(name)}"


@pytest.fixture
def odd_tables(sites: Directory) -> Directory:
    """Tables of nothing but odd names, the last one without rows; each has a log."""
    hq = sites["hq"]
    run(sites["jfk"], f"CREATE SCHEMA {quoted(SCHEMA)}")
    columns = ", ".join(f"{quoted(one)} text" for one in COLUMNS)
    run(hq, f"CREATE SCHEMA {quoted(SCHEMA)}")
    for name in TABLES:
        run(hq, f'CREATE TABLE {odd(name)} ("i d" int PRIMARY KEY, {columns})')
    for name in TABLES[:-1]:
        values = ", ".join(f"'{n}' || i" for n in range(len(COLUMNS)))
        run(
            hq,
            f"INSERT INTO {odd(name)} SELECT i, {values}"
            " FROM generate_series(1, 900) i",
            f"UPDATE {odd(name)} SET {quoted(COLUMNS[2])} = E'\\\\.\\n\\t\\\\N'"
            ' WHERE "i d" < 9',
        )
    log(hq, *map(odd, TABLES))
    return sites


def test_odd_names(
    odd_tables: Directory, tmp_path: Path, write_settings: WriteSettings
) -> None:
    hq, jfk = odd_tables["hq"], odd_tables["jfk"]
    folder = tmp_path / "Ü 'x\"\n="
    snaptide = Snaptide(write_settings(odd_tables))
    wide, narrow = TABLES[0], TABLES[1]
    chosen = {odd(narrow): ["i d", COLUMNS[1], COLUMNS[7]]}
    made = make(hq, folder, *map(odd, TABLES), columns=chosen)
    assert made.rows == 2700
    assert made.image == folder.name
    [listed] = snaptide.report("image", "list", "hq")
    assert listed["name"] == folder.name
    for name in TABLES:
        where = None if name == wide else '"i d" > 300'
        snapshots.create(
            jfk,
            odd(name),
            master="hq",
            group="g",
            columns=chosen.get(odd(name)),
            where=where,
        )
    loaded = snapshots.load_image(jfk, "g", folder)
    assert sorted(loaded.rows.values()) == [0, 600, 600, 900]
    assert {one.method for one in refresh(jfk, "g").values()} == {"fast"}
    assert_equal_to_master(jfk)
    snaptide.report("image", "drop", "hq", folder.name)


def test_a_folder_whose_name_is_no_text(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    folder = tmp_path / os.fsdecode(b"\xff\xfe")
    with pytest.raises(masters.ImageNameTaken, match="lacks characters"):
        make(hq, folder)
    make(hq, folder, name="a text")
    create(jfk)
    snapshots.load_image(jfk, "g", folder)
    assert_equal_to_master(jfk)


def test_bytes_of_more_than_a_slice(sites: Directory, tmp_path: Path) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.b (id int PRIMARY KEY, v bytea)",
        "ALTER TABLE public.b ALTER v SET STORAGE EXTERNAL",
        "INSERT INTO public.b VALUES (1, '\\x00'), (2, ''), (3, NULL),"
        " (4, '\\x5c2e0a')",
        "INSERT INTO public.b VALUES (5, decode(repeat('00', 3000000), 'hex'))",
        "INSERT INTO public.b"
        " SELECT i, decode(string_agg(md5(i::text || j), ''), 'hex')"
        " FROM generate_series(6, 20) i, generate_series(1, 10000) j GROUP BY i",
    )
    log(hq, "b")
    snapshots.create(jfk, "b", master="hq", group="g")
    snapshots.create(jfk, "some", master="hq", table="b", group="g", where="id < 6")
    made = make(hq, tmp_path / "i", "b", slice_bytes=8192)
    assert made.rows == 20
    assert snapshots.load_image(jfk, "g", tmp_path / "i").rows == {"b": 20, "some": 5}
    query = "SELECT id, length(v), md5(v) FROM public.b ORDER BY 1"
    assert run(jfk, query) == run(hq, query)
    assert {one.method for one in refresh(jfk, "g").values()} == {"fast"}
    assert_equal_to_master(jfk)


def test_a_slice_that_is_another_when_it_is_read(
    master: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has as many rows, and could be loaded."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i")
    create(jfk)
    first = tmp_path / "i" / "slice-000001.copy.zst"
    written = first.read_bytes()
    with pa.CompressedInputStream(pa.py_buffer(written), "zstd") as unpacked:
        rows = unpacked.read()
    others = pa.Codec("zstd").compress(rows.replace(b"A", b"Z"), asbytes=True)
    for bad in (others, b"", b"no rows", written[:-3], written + b"\0" * 2**21):

        def write(bad: bytes = bad) -> None:
            first.write_bytes(bad)

        at = AtPoint("image_load.before_slice", write)
        with monkeypatch.context() as patch:
            patch.setattr(faults, "point", at.point)
            with pytest.raises(snapshots.ImageDamaged, match="slice-000001"):
                snapshots.load_image(jfk, "g", tmp_path / "i")
        assert at.reached
    first.write_bytes(written)
    snapshots.load_image(jfk, "g", tmp_path / "i")
    assert {one.method for one in refresh(jfk, "g").values()} == {"fast"}
    assert_equal_to_master(jfk)


def test_an_image_that_takes_the_place_of_one_that_is_loaded(
    master: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No snapshot has rows of both."""
    hq, jfk = master["hq"], master["jfk"]
    folder, second = tmp_path / "i", tmp_path / "second"
    make(hq, folder)
    create(jfk)
    run(hq, "UPDATE public.c SET words = 'new'", "DELETE FROM public.c WHERE id = 9")
    make(hq, second)

    def replace() -> None:
        shutil.rmtree(folder)
        second.rename(folder)

    at, one = AtPoint("image_load.before_slice", replace, 3), threading.Lock()

    def point(name: str) -> None:
        with one:
            at.point(name)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", point)
        with pytest.raises(snapshots.ImageDamaged):
            snapshots.load_image(jfk, "g", folder)
    assert at.reached
    loaded = snapshots.load_image(jfk, "g", folder)
    assert (loaded.image, sum(loaded.rows.values())) == ("second", 12000)
    assert {one.method for one in refresh(jfk, "g").values()} == {"fast"}
    assert_equal_to_master(jfk)


def test_two_loads_of_one_image_at_once(
    master: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of one group exclude each other; two groups are loaded side by side."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i")
    create(jfk)
    snapshots.create(jfk, "other", master="hq", table="p", where="u > 5000")
    here, go_on = threading.Event(), threading.Event()

    def stands() -> None:
        here.set()
        assert go_on.wait(60)

    at = AtPoint("image_load.before_commit", stands)
    done: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", at.point)
        first = threading.Thread(
            target=lambda: done.append(snapshots.load_image(jfk, "g", tmp_path / "i"))
        )
        first.start()
        try:
            assert here.wait(60)
            with pytest.raises(RefreshRunning):
                snapshots.load_image(jfk, "g", tmp_path / "i")
            other = snapshots.load_image(jfk, "other", tmp_path / "i")
            assert other.rows == {"other": 1000}
        finally:
            go_on.set()
            first.join()
    assert [one.rows for one in done] == [{"p": 6000, "c": 6001}]
    for group in ("g", "other"):
        assert {one.method for one in refresh(jfk, group).values()} == {"fast"}
    assert_equal_to_master(jfk)


#: Two texts that are one and the same bytes, by another encoding each; and a character
#: that LATIN1 lacks.
LATIN, UTF, LOST = "é", "Ã©", "Ł"


def persons(hq: Site, *names: str) -> None:
    values = ", ".join(f"({n}, '{one}', '\\xe900')" for n, one in enumerate(names, 1))
    run(
        hq,
        'CREATE TABLE public.person (id int PRIMARY KEY, "né" text, photo bytea)',
        f"INSERT INTO public.person VALUES {values}",
    )
    log(hq, "person")


@pytest.mark.parametrize("latin", ["hq", "jfk"])
def test_databases_of_other_encodings(
    with_latin: MakeSites, tmp_path: Path, latin: str
) -> None:
    sites = with_latin(latin, "jfk" if latin == "hq" else "hq")
    hq, jfk = sites["hq"], sites["jfk"]
    persons(hq, LATIN, UTF, f"{LATIN}{UTF}", "plain")
    make(hq, tmp_path / "i", "person", name=f"of {LATIN}")
    made = {"all": None, "one": f"\"né\" = '{LATIN}'"}
    for name, where in made.items():
        snapshots.create(jfk, name, master="hq", table="person", where=where)
        snapshots.load_image(jfk, name, tmp_path / "i")
    query = 'SELECT id, "né", photo FROM public.{} ORDER BY 1'
    assert run(jfk, query.format("all")) == run(hq, query.format("person"))
    assert [row[1] for row in run(jfk, query.format("one"))] == [LATIN]
    run(hq, f"UPDATE public.person SET \"né\" = '{LATIN}' WHERE id = 2")
    for name in made:
        assert refresh(jfk, name)[name].method == "fast"
    assert_equal_to_master(jfk)


@pytest.mark.parametrize("where", [None, "id > 0"])
def test_a_text_that_the_site_cannot_hold(
    with_latin: MakeSites, tmp_path: Path, where: str | None
) -> None:
    sites = with_latin("jfk", "hq")
    hq, jfk = sites["hq"], sites["jfk"]
    persons(hq, "plain", LOST)
    make(hq, tmp_path / "i", "person", name=LOST)
    snapshots.create(jfk, "person", master="hq", where=where)
    with pytest.raises(snapshots.ImageRowsRefused, match=r"000001.*no equivalent"):
        snapshots.load_image(jfk, "person", tmp_path / "i")
    assert scalar(jfk, 'SELECT count(*) FROM public."snap$_person"') == 0
    run(hq, f"UPDATE public.person SET \"né\" = '{LATIN}' WHERE id = 2")
    make(hq, tmp_path / "again", "person")
    snapshots.load_image(jfk, "person", tmp_path / "again")
    assert_equal_to_master(jfk)


def test_a_name_that_the_master_cannot_hold(
    with_latin: MakeSites, tmp_path: Path
) -> None:
    hq = with_latin("hq", "jfk")["hq"]
    persons(hq, "plain")
    with pytest.raises(masters.ImageNameTaken, match=LOST):
        make(hq, tmp_path / LOST, "person")
    assert masters.list_images(hq) == []
