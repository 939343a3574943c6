"""Informix's table of row evaluation (C.1): what a row's life in a transaction sends.

A push never sends a row that its site's WHERE does not hold: the view refuses it. The
table is about the other way, from a master to a site with a part of its rows; the
WHERE is held against the image before the transaction and the one after it.
"""

import pytest

import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

INSIDE, OUTSIDE = "(1, 'jfk', 0)", "(2, 'lga', 0)"
MOVE = "UPDATE public.t SET region = '{1}', v = v + 1 WHERE id = {0}"
INSERT = "INSERT INTO public.t VALUES (3, 'jfk', 0)"

#: initial image and WHERE, final image and WHERE, key changed -> what is sent
TABLE = {
    "1 insert, delete: nothing": (
        [INSERT, "DELETE FROM public.t WHERE id = 3"],
        (0, 0, 0),
    ),
    "2 insert, update T: insert the final image": (
        [INSERT.replace("jfk", "lga"), MOVE.format(3, "jfk")],
        (1, 0, 0),
    ),
    "3 insert, update F: nothing": ([INSERT, MOVE.format(3, "lga")], (0, 0, 0)),
    "4 update T, delete: delete the initial image": (
        [MOVE.format(1, "jfk"), "DELETE FROM public.t WHERE id = 1"],
        (0, 0, 1),
    ),
    "5 update F, delete: nothing": (
        [MOVE.format(2, "jfk"), "DELETE FROM public.t WHERE id = 2"],
        (0, 0, 0),
    ),
    "6 update T, update T, another key: delete and insert": (
        [
            MOVE.format(1, "lga"),
            "UPDATE public.t SET id = 9, region = 'jfk' WHERE id = 1",
        ],
        (1, 0, 1),
    ),
    "7 update T, update T: update to the final image": (
        [MOVE.format(1, "lga"), MOVE.format(1, "jfk")],
        (0, 1, 0),
    ),
    "8 update T, update F: delete the initial image": (
        [MOVE.format(1, "jfk"), MOVE.format(1, "lga")],
        (0, 0, 1),
    ),
    "9 update F, update T: insert the final image": (
        [MOVE.format(2, "lga"), MOVE.format(2, "jfk")],
        (1, 0, 0),
    ),
    "10 update F, update F: nothing": (
        [MOVE.format(2, "jfk"), MOVE.format(2, "lga")],
        (0, 0, 0),
    ),
}


@prepared_once("hq", "jfk")
def part(sites: Directory) -> None:
    """A table at hq with a row inside and one outside of what jfk has of it."""
    hq = sites["hq"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, region text, v int)",
        f"INSERT INTO public.t VALUES {INSIDE}, {OUTSIDE}",
    )
    log(hq, "t")
    snapshots.create(sites["jfk"], "t", master="hq", where="region = 'jfk'")
    refresh(sites["jfk"], "t")


@pytest.mark.parametrize("life", TABLE)
def test_c6_1_to_10(part: Directory, life: str) -> None:
    statements, sent = TABLE[life]
    run(part["hq"], *statements)
    report = refresh(part["jfk"], "t", allow_mass_delete=True)["t"]
    assert (report.inserted, report.updated, report.deleted) == sent
    here = "SELECT * FROM public.t ORDER BY id"
    there = "SELECT * FROM public.t WHERE region = 'jfk' ORDER BY id"
    assert run(part["jfk"], here) == run(part["hq"], there)
    assert_equal_to_master(part["jfk"])
