"""Any number of rows that differ: counted exactly, listed in part, in a small memory.

`SNAPTIDE_DIFFERENCES` says how many they are (1000000 takes minutes).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import masters
import snapshots
from sites import Directory
from tests.fix_worker import ROOT
from tests.linked_table import as_refresh, run
from tests.processes import BORROWED, java_of_this_process
from tests.stories import refresh

DIFFERENCES = int(os.environ.get("SNAPTIDE_DIFFERENCES", "10000"))

#: So many differ at first.
FEW = DIFFERENCES // 10

#: Executors compare rows, and this process explains them in so many slices.
SLICES = 4 if DIFFERENCES <= 10_000 else 10

#: How many rows are listed.
MOST = 100

#: Megabytes that many differences may take more than a tenth of them.
MORE = 40

_PROGRAM = """
import json, os, sys
from pathlib import Path

import snapshots
from sites import Directory
from snapshots import keys
from snapshots.differences import comparison
from snapshots.check import compare

slice_, most = json.loads(sys.argv[1])
comparison.SMALL_WINDOW, keys.ALWAYS_FEW = slice_, 1
comparison.ALWAYS_FEW, compare.SLICE = 1, slice_
sites = Directory(json.loads(os.environ["TEST_SITES"]))
for line in sys.stdin:
    gently = json.loads(line)
    [one] = snapshots.check(sites["jfk"], "t", most=most, gently=gently).snapshots
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({
        "counts": {f"{c.kind.value} {c.reason.value}": c.rows for c in one.counts},
        "listed": len(one.differences),
        # Of this program alone; what getrusage() tells begins with the parent's.
        "memory": peak // 1024,
    }), flush=True)
"""

pytestmark = [
    pytest.mark.usefixtures("java_home"),
    pytest.mark.timeout(900 + DIFFERENCES // 250),
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


@pytest.fixture
def check(table: Directory) -> Iterator[Callable[..., dict[str, Any]]]:
    """A function that checks in a process of its own, with the test's Java."""
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in table.items()}
    given = [DIFFERENCES // SLICES, MOST]
    with subprocess.Popen(
        [sys.executable, "-c", BORROWED + _PROGRAM, json.dumps(given)],
        env={**os.environ, "TEST_SITES": json.dumps(urls), **java_of_this_process()},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin
        assert program.stdout
        asked, answers = program.stdin, program.stdout

        def checked(*, gently: bool) -> dict[str, Any]:
            asked.write(f"{json.dumps(gently)}\n")
            asked.flush()
            found: dict[str, Any] = json.loads(answers.readline())
            return found

        yield checked
        # If it ended by itself, it would stop the session.
        program.kill()


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


def test_many_differences(
    table: Directory, check: Callable[..., dict[str, Any]]
) -> None:
    spoil(table, 1, FEW)
    some = {gently: check(gently=gently) for gently in (False, True)}
    spoil(table, FEW + 1, DIFFERENCES)
    every = {gently: check(gently=gently) for gently in (False, True)}
    for found, rows in ((some, FEW), (every, DIFFERENCES)):
        for gently, one in found.items():
            told = (one["counts"], one["listed"])
            assert told == (expected(rows), min(MOST, FEW)), (gently, rows)
    # One program: what it has needed at most is of all checks until then.
    for gently in (False, True):
        more = every[gently]["memory"] - some[gently]["memory"]
        assert more < MORE, (gently, some, every)


def expected(rows: int) -> dict[str, int]:
    """How many of so many rows, from 1 on, differ in which way."""
    ways = ("differs unexplained", "extra unexplained", "differs in flight")
    found = {way: len(range(n, rows + 1, 4)) for n, way in enumerate(ways, 1)}
    return found | {"missing unexplained": rows // 4}
