"""Two rectifies of one site run at once, and neither spoils the other's work."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import snapshots
from sites import Directory
from snapshots.rectify import mend
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, parked, queued, rows, run
from tests.stories import refresh, settle

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """Forty rows that differ, and ten that each side has alone."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT g, 'hq' FROM generate_series(1, 99) g",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    as_refresh(
        jfk,
        "UPDATE public.\"snap$_t\" SET v = 'jfk' WHERE id <= 40",
        'DELETE FROM public."snap$_t" WHERE id > 89',
        'INSERT INTO public."snap$_t"'
        " SELECT g, 'jfk' FROM generate_series(101, 110) g",
    )


@pytest.mark.parametrize(
    "references", [("master", "master"), ("site", "site"), ("master", "site")]
)
def test_at_once(
    sites: Directory, monkeypatch: pytest.MonkeyPatch, references: tuple[str, str]
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    # In several parts, between which the other one comes.
    monkeypatch.setattr(mend, "PART", 10)
    with ThreadPoolExecutor(2) as beside:
        both = [
            beside.submit(partial(snapshots.rectify, jfk, "t", reference=one))
            for one in references
        ]
        reports = [one.result() for one in both]
    settle(jfk)
    assert sorted(rows(hq, "t")) == sorted(rows(jfk, "t"))
    assert snapshots.check(jfk).equal
    assert (queued(jfk), parked(hq)) == (0, [])
    if len({*references}) == 1:
        assert all(one.unexplained == 0 for one in reports)
        mine = {"master": "hq", "site": "jfk"}[references[0]]
        assert {v for id_, v in rows(hq, "t") if id_ <= 40} == {mine}
    # Whoever came first to a row, no row is there that neither side had.
    for id_, v in rows(hq, "t"):
        assert v == ("hq" if 40 < id_ < 100 else v)
        assert v in ("hq", "jfk")
