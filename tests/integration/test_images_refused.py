"""What an image is refused for, and how long the logs are kept for it."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

import masters
import snapshots
from masters.log import purge
from sites import Directory, Site
from sites.errors import BadName, UnknownTable
from snapshots.definitions.errors import DifferentTypes
from snapshots.images import folder as folders
from snapshots.images import manifest
from snaptide.doctor import registrations
from snaptide.repair import repair
from tests.fix_commands import Snaptide
from tests.fix_sites import log, name_site
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.grouped import broken_off_at
from tests.imaged import away, make
from tests.linked_table import run, scalar
from tests.stories import refresh


@prepared_once("hq", "jfk")
def master(sites: Directory) -> None:
    """A table at hq, and a snapshot of it at jfk that was never refreshed."""
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, a text, b text)",
        "CREATE TABLE public.other (id int PRIMARY KEY)",
        "INSERT INTO public.t SELECT i, 'a', 'b' FROM generate_series(1, 9000) i",
    )
    log(sites["hq"], "t", "other")
    snapshots.create(sites["jfk"], "t", master="hq")


def refused(jfk: Site, folder: Path, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        snapshots.load_image(jfk, "t", folder)


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_files_that_are_not_what_was_written(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    first, second = (tmp_path / f"slice-{n:06}.copy.zst" for n in (1, 2))
    refused(jfk, tmp_path, snapshots.NotAnImage, "No such file")
    make(hq, tmp_path, "t")
    flip(second, second.stat().st_size // 2)
    refused(jfk, tmp_path, snapshots.ImageDamaged, "slice-000002")
    flip(second, second.stat().st_size // 2)
    first.write_bytes(first.read_bytes() + b"\0")
    assert scalar(jfk, 'SELECT count(*) > 0 FROM public."snap$_t"')
    # The slice that is in already is not read again.
    assert snapshots.load_image(jfk, "t", tmp_path).rows == {"t": 9000}


def test_manifests_that_are_not_what_was_written(
    master: Directory, tmp_path: Path
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    path = tmp_path / manifest.NAME
    make(hq, tmp_path, "t")
    written = path.read_text()
    for place in (written.index('"position"') + 14, written.index('"rows"') + 8):
        path.write_text(written)
        flip(path, place)
        refused(jfk, tmp_path, snapshots.ImageDamaged, "not what was written")
    path.write_text(written[:-10])
    refused(jfk, tmp_path, snapshots.ImageDamaged, "not what was written")
    path.write_text(json.dumps({**json.loads(written), "format": 99}))
    refused(jfk, tmp_path, snapshots.NotAnImage, "format 99")


@pytest.mark.usefixtures("spark")
def test_another_master_and_another_incarnation(
    master: Directory, tmp_path: Path
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    snapshots.create(jfk, "other", master="hq")
    refresh(jfk, "other")
    before = tmp_path / "before"
    make(hq, before, "t")
    repair(hq, restored=True)
    assert masters.list_images(hq) == []
    refused(jfk, before, snapshots.ImageOfAnotherMaster, "incarnation")
    # Without the master, it is what the site remembers that counts.
    refresh(jfk, "other")
    with away(jfk) as alone:
        one = alone["jfk"]
        refused(one, before, snapshots.ImageOfAnotherMaster, "incarnation")
    name_site(hq)
    make(hq, tmp_path / "another", "t")
    refused(jfk, tmp_path / "another", snapshots.ImageOfAnotherMaster, "of another")


def test_expired(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path, "t", expires=timedelta(microseconds=1))
    refused(jfk, tmp_path, snapshots.ImageExpired, "has expired")


def test_columns_and_rows_that_the_image_lacks(
    master: Directory, tmp_path: Path
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "columns", "t", columns={"t": ["id", "a"]})
    refused(jfk, tmp_path / "columns", snapshots.ImageColumnsDiffer, "lacks b")
    make(hq, tmp_path / "rows", "t", where={"t": "id < 50"})
    refused(jfk, tmp_path / "rows", snapshots.ImageLacksRows, "id < 50")
    make(hq, tmp_path / "table", "other")
    refused(jfk, tmp_path / "table", snapshots.ImageLacksRows, "no table t")
    narrow = "id < 50 AND a = 'a'"
    snapshots.create(jfk, "narrow", master="hq", table="t", where=narrow)
    loaded = snapshots.load_image(jfk, "narrow", tmp_path / "rows")
    assert loaded.rows == {"narrow": 49}


def test_columns_are_told_by_number(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    run(hq, "ALTER TABLE public.t DROP b, ADD b text")
    make(hq, tmp_path / "again", "t")
    refused(jfk, tmp_path / "again", snapshots.ImageColumnsDiffer, "b of t is another")
    run(hq, "ALTER TABLE public.t ALTER a TYPE varchar(9)")
    make(hq, tmp_path / "type", "t")
    refused(jfk, tmp_path / "type", snapshots.ImageColumnsDiffer, "a, b of t")


def test_types_that_the_site_has_otherwise(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    for site in (hq, jfk):
        run(site, "CREATE TYPE public.mood AS ENUM ('sad', 'happy')")
    run(hq, "CREATE TABLE public.m (id int PRIMARY KEY, mood public.mood)")
    log(hq, "m")
    snapshots.create(jfk, "m", master="hq")
    run(hq, "ALTER TYPE public.mood ADD VALUE 'so so' BEFORE 'happy'")
    make(hq, tmp_path, "m")
    with pytest.raises(DifferentTypes, match="mood"):
        snapshots.load_image(jfk, "m", tmp_path)


def test_conditions_that_ask_other_tables(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    asks = "EXISTS (SELECT FROM other o WHERE o.id = t.id)"
    with pytest.raises(snapshots.ImageConditionRefused, match="of t asks other"):
        make(hq, tmp_path, "t", where={"t": asks})
    make(hq, tmp_path, "t")
    snapshots.create(jfk, "asks", master="hq", table="t", where=asks)
    with pytest.raises(snapshots.ImageConditionRefused, match="of asks asks other"):
        snapshots.load_image(jfk, "asks", tmp_path)


def test_folders_and_names(master: Directory, tmp_path: Path) -> None:
    hq = master["hq"]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(snapshots.ImageFolderUnusable, match=r"letter\.txt"):
        make(hq, tmp_path / "full", "t")
    make(hq, tmp_path / "i", "t")
    with pytest.raises(snapshots.ImageFolderUnusable, match="has an image"):
        make(hq, tmp_path / "i", "t")
    with pytest.raises(masters.ImageNameTaken, match="called i"):
        make(hq, tmp_path / "second", "t", name="i")
    with (
        folders.claimed(tmp_path / "busy", uuid.uuid4()),
        pytest.raises(snapshots.ImageFolderUnusable, match="Another process"),
    ):
        make(hq, tmp_path / "busy", "t")
    with pytest.raises(UnknownTable, match="other is not among"):
        make(hq, tmp_path / "wrong", "t", where={"other": "true"})
    with pytest.raises(BadName):
        make(hq, tmp_path / "wrong", "a.b.c")
    # None of these has the logs keep anything.
    assert [one.name for one in masters.list_images(hq)] == ["i"]


def test_a_folder_that_another_process_completes_just_now(
    master: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lets go of the folder when the image is whole, which stays as it is."""
    hq, jfk = master["hq"], master["jfk"]
    free = folders._free

    def ended(folder: Path) -> Path:
        monkeypatch.setattr(folders, "_free", free)
        found = free(folder)
        make(hq, folder, "t", name="first")
        return found

    monkeypatch.setattr(folders, "_free", ended)
    with pytest.raises(snapshots.ImageFolderUnusable, match="has an image already"):
        make(hq, tmp_path / "i", "t", name="second")
    assert [one.name for one in masters.list_images(hq)] == ["first"]
    assert snapshots.load_image(jfk, "t", tmp_path / "i").rows == {"t": 9000}


def test_broken_off_more_than_once(master: Directory, tmp_path: Path) -> None:
    """The master hears of all that were begun in the folder."""
    hq = master["hq"]
    make(hq, tmp_path / "taken", "t")
    with broken_off_at("image_make.after_register"):
        make(hq, tmp_path / "i", "t")
    with pytest.raises(masters.ImageNameTaken):
        make(hq, tmp_path / "i", "t", name="taken")
    make(hq, tmp_path / "i", "t")
    assert [one.name for one in masters.list_images(hq)] == ["i", "taken"]


def test_logs_are_kept_until_it_is_dropped_or_expires(
    master: Directory, tmp_path: Path, write_settings: WriteSettings
) -> None:
    hq = master["hq"]
    snaptide = Snaptide(write_settings(master))
    make(hq, tmp_path / "i", "t")
    horizon = _horizon(hq)
    run(hq, "UPDATE public.t SET a = 'new'")
    assert _horizon(hq) == horizon
    assert snaptide.report("log", "list", "hq")[1]["snapshots"] == [
        "image i:t",
        "jfk:t",
    ]
    readers = snaptide.report("status", "hq")[0]["readers"]
    assert [one["site"] for one in readers] == ["image i", "jfk"]
    (one,) = snaptide.report("image", "list", "hq")
    assert (one["name"], one["tables"]) == ("i", ["t"])
    assert one["made_at"]
    with hq.transaction() as connection:
        assert list(registrations.check(connection, hq)) == []
    ddl = masters.execute_ddl(hq, "ALTER TABLE t ADD more int")
    assert ddl.sites == ("jfk",)
    assert masters.list_ddl(hq)[0].sites == ("jfk",)
    shown = [one.snapshots for one in snapshots.list_shapes(hq, "t")]
    assert {one.site for some in shown for one in some} == {"jfk"}
    snaptide.report("image", "drop", "hq", "i")
    assert _horizon(hq) > horizon
    assert "SNP-111" in snaptide.said("image", "drop", "hq", "i", code=1)
    make(hq, tmp_path / "short", "t", expires=timedelta(microseconds=1))
    assert [one.name for one in masters.list_images(hq)] == ["short"]
    masters.purge_snapshot_logs(hq)
    assert masters.list_images(hq) == []
    assert snaptide.report("log", "list", "hq")[1]["snapshots"] == ["jfk:t"]


def _horizon(hq: Site) -> int:
    from sites import QualifiedName

    run(hq, "UPDATE public.other SET id = id")
    with hq.transaction() as connection:
        return int(purge.horizon(connection, QualifiedName("public", "t")))


@pytest.mark.parametrize(
    "wrong",
    [
        ["--slice", "much"],
        ["--slice", "0"],
        ["--slice", "2MiB"],
        ["--expires", "soon"],
        ["--expires", "0d"],
        ["--where", "t"],
        ["--columns", "t"],
        ["--where", "t=id > 5", "--where", "t=id < 9"],
    ],
)
def test_command_lines_that_are_wrong(
    master: Directory, tmp_path: Path, write_settings: WriteSettings, wrong: list[str]
) -> None:
    snaptide = Snaptide(write_settings(master))
    assert snaptide("image", "make", "hq", str(tmp_path / "i"), "t", *wrong).exit_code
    assert not (tmp_path / "i").exists()
