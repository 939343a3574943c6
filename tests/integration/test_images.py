"""Images: files of one moment of a master, from which snapshots are filled."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import masters
import snapshots
from sites import Directory, Site
from sites.tables import definitions
from snapshots.definitions import snapshot
from snapshots.errors import PositionMoved
from snapshots.images import load
from snapshots.refreshing import first_load
from snapshots.spark import claims
from snaptide import migrate
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.grouped import broken_off_at
from tests.imaged import away, create, make
from tests.imaged import master as master
from tests.linked_table import queued, run, scalar
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")


@contextmanager
def writers(hq: Site) -> Iterator[None]:
    """A user changes rows at the master all the time."""
    done = threading.Event()

    def write() -> None:
        number = 10_000
        while not done.is_set():
            number += 1
            run(
                hq,
                f"INSERT INTO public.p (id, v, u) VALUES ({number}, 'W', {number})",
                f"INSERT INTO public.c VALUES ({number}, {number}, 'new')",
                f"UPDATE public.p SET v = 'X' WHERE id = {number % 6000 + 1}",
                f"DELETE FROM public.c WHERE id = {number % 6000 + 1}",
            )

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def methods(jfk: Site, group: str = "g") -> set[str]:
    return {one.method for one in refresh(jfk, group).values()}


def test_loaded_while_users_write_at_the_master(
    master: Directory, tmp_path: Path
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    create(jfk)
    with writers(hq):
        made = make(hq, tmp_path / "image")
        assert made.slices > 6
        loaded = snapshots.load_image(jfk, "g", tmp_path / "image")
    assert loaded.kept
    assert loaded.slices == made.slices
    assert sum(loaded.rows.values()) == made.rows
    # One moment of both tables: no child without its parent.
    orphans = "SELECT count(*) FROM public.c WHERE p NOT IN (SELECT id FROM public.p)"
    assert scalar(jfk, orphans) == 0
    run(jfk, "UPDATE public.p SET v = 'mine' WHERE id = 5000")
    assert queued(jfk) == 1
    assert methods(jfk) == {"fast"}
    found = run(jfk, "SELECT v, twice FROM public.p WHERE id = 5000")
    assert found == [("mine", 10000)]
    settle(jfk)
    assert_equal_to_master(jfk)
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated"
    assert scalar(jfk, f"{keys} AND conrelid = 'public.\"snap$_c\"'::regclass") == 1


def test_one_image_fills_narrower_sites_while_the_master_is_away(
    master: Directory, tmp_path: Path, write_settings: WriteSettings
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    snaptide = Snaptide(write_settings(master))
    folder = str(tmp_path / "stick")
    made = snaptide.report("image", "make", "hq", folder, "p", "c", "--slice", "64kB")
    assert made["rows"] == 12001
    snapshots.create(
        jfk,
        "p",
        master="hq",
        updatable=True,
        group="g",
        columns=["id", "v", "u"],
        where="v = 'B' AND u > 3000",
    )
    snapshots.create(jfk, "c", master="hq", group="g", where="words IS NULL")
    with away(jfk) as alone:
        loaded = snapshots.load_image(alone["jfk"], "p", folder)
    assert loaded.rows == {"p": 1000, "c": 1}
    # Its age is that of the image.
    age = "SELECT refreshed_at FROM snaptide.refresh_group"
    assert (
        scalar(jfk, age) == loaded.taken_at == datetime.fromisoformat(made["taken_at"])
    )
    assert not loaded.kept
    run(jfk, "UPDATE public.p SET u = 3999 WHERE id = 3001")
    run(hq, "UPDATE public.p SET v = 'B' WHERE id = 4001")
    run(hq, "UPDATE public.p SET v = 'A' WHERE id = 4003")
    assert methods(jfk) == {"fast"}
    settle(jfk)
    assert_equal_to_master(jfk)


def test_an_image_may_have_a_part_of_columns_and_rows(
    master: Directory, tmp_path: Path, write_settings: WriteSettings
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    snaptide = Snaptide(write_settings(master))
    made = ["image", "make", "hq", str(tmp_path / "some"), "p", "--expires", "2h"]
    part = ["--where", "p=v = 'B'", "--columns", "p=id,v"]
    assert snaptide.report(*made, *part)["rows"] == 2000
    snapshots.create(jfk, "p", master="hq", where="v = 'B'", columns=["id", "v"])
    load = ["snapshot", "load", "jfk", "p", "--image", str(tmp_path / "some")]
    assert snaptide.report(*load)["rows"] == {"p": 2000}
    run(hq, "DELETE FROM public.c", "DELETE FROM public.p WHERE id < 30")
    assert methods(jfk, "p") == {"fast"}
    assert_equal_to_master(jfk)


def test_a_site_that_sorts_texts_otherwise(
    master: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its condition may be true of other rows there: the master chooses anew."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    monkeypatch.setattr(definitions, "locale", lambda connection: "another")
    chosen = {
        "equal": ("v = 'B' AND u > 3000", "fast"),
        "below": ("v < 'B'", "complete"),
    }
    for name, (where, method) in chosen.items():
        snapshots.create(jfk, name, master="hq", table="p", where=where)
        assert snapshots.load_image(jfk, name, tmp_path / "i").kept
        assert methods(jfk, name) == {method}
        assert methods(jfk, name) == {"fast"}
    assert_equal_to_master(jfk)


def test_two_snapshots_of_one_table(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    for name, where in {"p": "v = 'A'", "other": "v = 'B'"}.items():
        snapshots.create(jfk, name, master="hq", table="p", group="g", where=where)
    loaded = snapshots.load_image(jfk, "g", tmp_path / "i")
    assert loaded.rows == {"p": 2000, "other": 2000}
    assert methods(jfk) == {"fast"}
    assert_equal_to_master(jfk)


def test_no_slice_of_a_large_table_is_written_alone(hq: Site, tmp_path: Path) -> None:
    run(
        hq,
        "CREATE TABLE public.large (id int PRIMARY KEY) WITH (fillfactor = 10)",
        "INSERT INTO public.large SELECT generate_series(1, 120000)",
        "CREATE TABLE public.small (id int PRIMARY KEY)",
        "INSERT INTO public.small VALUES (1)",
    )
    log(hq, "large", "small")
    for slice_mb, slices in ((256, 3), (20, 3), (8, 6)):
        folder = tmp_path / str(slice_mb)
        made = snapshots.make_image(
            hq, folder, ["large", "small"], slice_bytes=slice_mb * 2**20
        )
        assert (made.slices, made.rows) == (slices, 120_001)


def test_slices_come_in_any_order(master: Directory, tmp_path: Path) -> None:
    hq, jfk = master["hq"], master["jfk"]
    folder, later = tmp_path / "image", tmp_path / "later"
    made = make(hq, folder)
    create(jfk)
    later.mkdir()
    for number in (1, 3, made.slices):
        shutil.move(folder / f"slice-{number:06}.copy.zst", later)
    with pytest.raises(snapshots.SliceMissing, match=r"slice-000001.*slice-000003"):
        snapshots.load_image(jfk, "g", folder)
    for path in later.iterdir():
        shutil.move(path, folder)
    assert snapshots.load_image(jfk, "g", folder).slices == 3
    assert methods(jfk) == {"fast"}
    assert_equal_to_master(jfk)


def test_a_refresh_takes_the_place_of_a_load_and_the_other_way_round(
    master: Directory, tmp_path: Path
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    snapshots.create(jfk, "p", master="hq")
    with broken_off_at("image_load.after_slice"):
        snapshots.load_image(jfk, "p", tmp_path / "i")
    with broken_off_at("refresh.after_load"):
        refresh(jfk, "p")
    # Nothing of what the refresh has filled counts as the image's.
    loaded = snapshots.load_image(jfk, "p", tmp_path / "i")
    assert loaded.rows == {"p": 6000}
    with pytest.raises(snapshots.AlreadyLoaded):
        snapshots.load_image(jfk, "p", tmp_path / "i")
    snapshots.drop(jfk, "p")
    snapshots.create(jfk, "p", master="hq")
    with broken_off_at("image_load.before_finish_commit"):
        snapshots.load_image(jfk, "p", tmp_path / "i")
    assert methods(jfk, "p") == {"load"}
    assert_equal_to_master(jfk)


def test_a_load_that_another_version_has_begun_begins_anew(
    master: Directory, tmp_path: Path
) -> None:
    """Versions look for what is in of an image under other ids."""
    jfk = master["jfk"]
    make(master["hq"], tmp_path / "i", "p")
    snapshots.create(jfk, "p", master="hq")
    with broken_off_at("image_load.after_slice"):
        snapshots.load_image(jfk, "p", tmp_path / "i")
    run(jfk, "UPDATE snaptide.load_range SET load_id = gen_random_uuid()")
    migrate.downgrade(jfk, "0089")
    migrate.upgrade(jfk)
    assert snapshots.load_image(jfk, "p", tmp_path / "i").rows == {"p": 6000}
    assert run(jfk, "SELECT 1 FROM snaptide.load_range") == []


def test_two_processes_that_fill_one_snapshot(
    master: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of a load goes with its session, which an administrator may end."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    snapshots.create(jfk, "p", master="hq")

    def another_begins() -> None:
        with jfk.transaction() as connection:
            found = snapshot.read(connection, "p")
            first_load.begin(connection, found, claims.load_of(found.base, "later"))

    for place in ("_load_slice", "_finish"):
        real = getattr(load, place)

        def later(*given: Any, real: Any = real) -> Any:
            another_begins()
            return real(*given)

        with monkeypatch.context() as patch:
            patch.setattr(load, place, later)
            with pytest.raises(PositionMoved, match="begun to fill p"):
                snapshots.load_image(jfk, "p", tmp_path / "i")
        assert not snapshots.list_snapshots(jfk)[0].loaded
    snapshots.load_image(jfk, "p", tmp_path / "i")
    with pytest.raises(PositionMoved, match="p was filled in the meantime"):
        another_begins()
    assert scalar(jfk, "SELECT count(*) FROM public.p") == 6000
    assert methods(jfk, "p") == {"fast"}


def test_altered_between_two_loads(master: Directory, tmp_path: Path) -> None:
    """Slices that are in have other rows and columns: they are loaded again."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    last = tmp_path / "i" / "slice-000002.copy.zst"
    shutil.move(last, tmp_path)
    some: dict[str, Any] = {"table": "p", "columns": ["id", "v"], "where": "v = 'A'"}
    for name in ("rows", "wider"):
        snapshots.create(jfk, name, master="hq", **some)
        with pytest.raises(snapshots.SliceMissing):
            snapshots.load_image(jfk, name, tmp_path / "i")
    shutil.move(tmp_path / last.name, last)
    snapshots.alter_condition(jfk, "rows", where="v = 'B'")
    snapshots.alter_columns(jfk, "wider", add=["u"])
    for name in ("rows", "wider"):
        loaded = snapshots.load_image(jfk, name, tmp_path / "i")
        assert loaded.rows == {name: 2000}
        assert methods(jfk, name) == {"fast"}
    assert_equal_to_master(jfk)


def test_dropped_while_the_master_was_away(master: Directory, tmp_path: Path) -> None:
    """No one could know: the refresh finds out, and compares all rows."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    for name in ("one", "two"):
        snapshots.create(jfk, name, master="hq", table="p")
    masters.drop_image(hq, "i")
    with pytest.raises(snapshots.ImageExpired, match="no longer keeps"):
        snapshots.load_image(jfk, "one", tmp_path / "i")
    with away(jfk) as alone:
        snapshots.load_image(alone["jfk"], "one", tmp_path / "i")
    run(hq, "UPDATE public.p SET v = 'D' WHERE id = 1")
    assert methods(jfk, "one") == {"complete"}
    assert scalar(jfk, "SELECT v FROM public.one WHERE id = 1") == "D"
    assert methods(jfk, "one") == {"fast"}


def test_a_master_that_was_restored_to_the_making_of_the_image(
    master: Directory, tmp_path: Path
) -> None:
    """What it writes from then on may have numbers that the image has seen already."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    for name in ("one", "two"):
        snapshots.create(jfk, name, master="hq", table="p")
    begun = "UPDATE snaptide.registered_snapshot SET position = '3:3:'"
    run(hq, f"{begun} WHERE site_name = 'image i'")
    with pytest.raises(snapshots.ImageExpired, match="no longer keeps"):
        snapshots.load_image(jfk, "one", tmp_path / "i")
    with away(jfk) as alone:
        snapshots.load_image(alone["jfk"], "one", tmp_path / "i")
    assert methods(jfk, "one") == {"complete"}


def test_dropped_after_a_load_began(master: Directory, tmp_path: Path) -> None:
    """The logs are kept for the snapshot by then."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    snapshots.create(jfk, "p", master="hq")
    with broken_off_at("image_load.before_commit", time=2):
        snapshots.load_image(jfk, "p", tmp_path / "i")
    masters.drop_image(hq, "i")
    run(hq, "UPDATE public.p SET v = 'D' WHERE id = 1")
    masters.purge_snapshot_logs(hq)
    snapshots.load_image(jfk, "p", tmp_path / "i")
    assert methods(jfk, "p") == {"fast"}
    assert_equal_to_master(jfk)


def test_a_refresh_that_could_not_tell_the_master_is_followed_by_a_fast_one(
    master: Directory, tmp_path: Path
) -> None:
    """The rows are not those of the image any more: a refresh has compared them."""
    hq, jfk = master["hq"], master["jfk"]
    make(hq, tmp_path / "i", "p")
    snapshots.create(jfk, "p", master="hq")
    snapshots.load_image(jfk, "p", tmp_path / "i")
    run(hq, "UPDATE public.p SET v = 'D' WHERE id = 1")
    with broken_off_at("refresh.after_merge"):
        snapshots.refresh(jfk, "p")
    run(hq, "UPDATE public.p SET v = 'E' WHERE id = 1")
    snapshots.refresh(jfk, "p", method="f")
    assert_equal_to_master(jfk)
