"""Any number of rows that differ: counted exactly, listed in part, in a small memory.

`SNAPTIDE_DIFFERENCES` says how many they are (1000000 takes minutes).
"""

import json
import os
import subprocess
import sys

import pytest

import masters
import snapshots
from sites import Directory
from tests.linked_table import as_refresh, run
from tests.stories import refresh

DIFFERENCES = int(os.environ.get("SNAPTIDE_DIFFERENCES", "10000"))

#: Executors compare rows, and this process explains them in so many slices.
SLICES = 10

#: How many rows are listed.
MOST = 100

#: Megabytes that many differences may take more than a tenth of them.
MORE = 40

_PROGRAM = """
import json, os, sys
from pathlib import Path

import tests.fix_spark  # its options of the JVM
import snapshots
from sites import Directory
from snapshots import keys
from snapshots.differences import comparison
from snapshots.check import compare

slice_, most, gently = json.loads(sys.argv[1])
comparison.SMALL_WINDOW, keys.ALWAYS_FEW = slice_, 1
comparison.ALWAYS_FEW, compare.SLICE = 1, slice_
sites = Directory(json.loads(os.environ["TEST_SITES"]))
[one] = snapshots.check(sites["jfk"], "t", most=most, gently=gently).snapshots
sites.close()
status = Path("/proc/self/status").read_text().splitlines()
print(json.dumps({
    "counts": {f"{c.kind.value} {c.reason.value}": c.rows for c in one.counts},
    "listed": len(one.differences),
    # Of this program alone; what getrusage() tells begins with the parent's.
    "memory": next(int(l.split()[1]) for l in status if l.startswith("VmHWM")) // 1024,
}))
"""

pytestmark = [
    pytest.mark.usefixtures("java_home"),
    pytest.mark.timeout(900 + DIFFERENCES // 500),
]


@pytest.fixture
def table(sites: Directory, spark: object) -> Directory:
    """A table of twice as many rows, at both sides."""
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, note text)",
        "INSERT INTO public.t SELECT g, 'note ' || g"
        f" FROM generate_series(1, {2 * DIFFERENCES}) g",
    )
    masters.create_snapshot_log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    refresh(sites["jfk"], "t")
    for name, stored in (("hq", "t"), ("jfk", '"snap$_t"')):
        run(sites[name], f"ANALYZE public.{stored}")
    return sites


def checked(sites: Directory, *, gently: bool) -> dict[str, object]:
    """Check in a process of its own."""
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in sites.items()}
    given = [max(DIFFERENCES // SLICES, 100), MOST, gently]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(given)],
        env={**os.environ, "TEST_SITES": json.dumps(urls)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def spoil(sites: Directory, first: int, last: int) -> None:
    """Have rows differ without a reason, in three ways, and some for a reason."""
    between = f"id BETWEEN {first} AND {last}"
    as_refresh(
        sites["jfk"],
        f'DELETE FROM public."snap$_t" WHERE {between} AND id % 4 = 0',
        f"UPDATE public.\"snap$_t\" SET note = 'x' WHERE {between} AND id % 4 = 1",
        f'INSERT INTO public."snap$_t" SELECT -id, note FROM public."snap$_t"'
        f" WHERE {between} AND id % 4 = 2",
    )
    run(sites["hq"], f"UPDATE public.t SET note = 'y' WHERE {between} AND id % 4 = 3")


@pytest.mark.parametrize("gently", [False, True])
def test_many_differences(table: Directory, *, gently: bool) -> None:
    few = DIFFERENCES // SLICES
    spoil(table, 1, few)
    some = checked(table, gently=gently)
    assert some["counts"] == expected(few)
    spoil(table, few + 1, DIFFERENCES)
    every = checked(table, gently=gently)
    assert every["counts"] == expected(DIFFERENCES)
    assert some["listed"] == every["listed"] == min(MOST, few)
    assert int(str(every["memory"])) - int(str(some["memory"])) < MORE, (some, every)


def expected(rows: int) -> dict[str, int]:
    """How many of so many rows, from 1 on, differ in which way."""
    ways = ("differs unexplained", "extra unexplained", "differs in flight")
    found = {way: len(range(n, rows + 1, 4)) for n, way in enumerate(ways, 1)}
    return found | {"missing unexplained": rows // 4}
