"""Rows with values of 50 MB and two hundred columns are mended, either way."""

import pytest

import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, parked, queued, run
from tests.stories import refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

LARGE = 50 * 2**20
COLUMNS = ", ".join(f"c{n} {('int', 'text', 'numeric')[n % 3]}" for n in range(200))
ROWS = (
    "INSERT INTO public.wide (id, c0, c1, c199, big)"
    f" SELECT g, g, 'c', 1.50, repeat('hq', {LARGE // 2}) FROM generate_series(1, 3) g"
)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """Three large rows; the site has one otherwise, and one only it or the master."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE public.wide (id int PRIMARY KEY, big text, {COLUMNS})", ROWS)
    log(hq, "wide")
    snapshots.create(jfk, "wide", master="hq", updatable=True)
    refresh(jfk, "wide")
    as_refresh(
        jfk,
        f"UPDATE public.\"snap$_wide\" SET big = repeat('JF', {LARGE // 2}),"
        " c150 = -1, c199 = 1.5 WHERE id = 1",
        'DELETE FROM public."snap$_wide" WHERE id = 2',
        "UPDATE public.\"snap$_wide\" SET id = 4, c1 = 'jfk' WHERE id = 3",
    )


def sums(site: Site) -> list[tuple[object, ...]]:
    query = "SELECT id, md5(w::text), left(big, 2) FROM public.wide w ORDER BY id"
    return run(site, query)


@pytest.mark.parametrize("reference", ["master", "site"])
def test_large_rows(sites: Directory, reference: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    wanted = sums(hq if reference == "master" else jfk)
    report = snapshots.rectify(jfk, "wide", reference=reference)
    assert (report.to_mend, report.unexplained, report.waiting) == (4, 0, 0)
    [differs] = [one for one in report.snapshots[0].rows if one.key == {"id": "1"}]
    assert set(differs.here or ()) == {"big", "c150", "c199"}
    assert all(len(value or "") < 300 for value in (differs.here or {}).values())
    settle(jfk)
    assert sums(hq) == sums(jfk) == wanted
    assert (queued(jfk), parked(hq)) == (0, [])
    assert snapshots.check(jfk).equal
