"""Making an image, or loading one, dies of kill -9; the next call comes to the end."""

from pathlib import Path

import pytest

import masters
import snapshots
from sites import Directory
from tests.imaged import create, make
from tests.imaged import master as master
from tests.linked_table import run
from tests.processes import kill
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

MAKES = """
import snapshots, sys
snapshots.make_image(sites["hq"], sys.argv[1], ["p", "c"], slice_bytes=65536)
"""

LOADS = """
import snapshots, sys
snapshots.load_image(sites["jfk"], "g", sys.argv[1])
"""


@pytest.mark.parametrize(
    "fault",
    [
        "image_make.after_register:kill",
        "image_make.after_slice:kill:3",
        "image_make.before_finish:kill",
        "image_make.before_manifest:kill",
    ],
)
def test_made_again_where_a_make_was_killed(
    master: Directory, tmp_path: Path, fault: str
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    folder = tmp_path / "i"
    kill(MAKES, master, str(folder), fault=fault)
    create(jfk)
    with pytest.raises(snapshots.NotAnImage):
        snapshots.load_image(jfk, "g", folder)
    (left,) = masters.list_images(hq)
    run(hq, "UPDATE public.p SET v = 'later' WHERE id < 9")
    make(hq, folder)
    (now,) = masters.list_images(hq)
    assert (now.name, now.id == left.id, now.made_at is None) == ("i", False, False)
    assert sorted(path.suffix for path in folder.iterdir()).count(".json") == 1
    assert not (folder / "unfinished").exists()
    snapshots.load_image(jfk, "g", folder)
    assert_equal_to_master(jfk)


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        # Two slices are loaded at a time.
        ("image_load.before_slice:kill:2", {0, 1}),
        ("image_load.before_commit:kill:3", {1, 2}),
        ("image_load.after_slice:kill:3", {3, 4}),
        ("image_load.before_finish:kill", None),
        ("image_load.before_finish_commit:kill", None),
    ],
)
def test_loaded_further_where_a_load_was_killed(
    master: Directory, tmp_path: Path, fault: str, left: set[int] | None
) -> None:
    hq, jfk = master["hq"], master["jfk"]
    made = make(hq, tmp_path / "i")
    create(jfk)
    kill(LOADS, master, str(tmp_path / "i"), fault=fault)
    run(hq, "UPDATE public.p SET v = 'later' WHERE id < 9")
    loaded = snapshots.load_image(jfk, "g", tmp_path / "i")
    found = made.slices - loaded.slices
    assert found in ({made.slices} if left is None else left)
    assert sum(loaded.rows.values()) == made.rows
    assert {one.method for one in refresh(jfk, "g").values()} == {"fast"}
    assert_equal_to_master(jfk)
