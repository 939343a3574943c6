"""Few rows of many bytes: however wide they are, a process holds few at once."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import masters
import snapshots
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

#: Rows, and the megabytes of each.
ROWS, WIDE = 6, 20

Memory = Callable[[Directory, str], int]

#: Megabytes that a process may take; without any rows, it takes 200.
MOST = 300

_PROGRAM = """
import json, sys
from pathlib import Path

import tests.fix_spark  # its options of the JVM
import snapshots
from sites import Directory

own = Path("/proc/self")
for line in sys.stdin:
    urls, work = json.loads(line)
    (own / "clear_refs").write_text("5")  # the most that it has held so far
    with Directory(urls) as sites:
        told = eval(work, {"jfk": sites["jfk"], "snapshots": snapshots})
        print(told, file=sys.stderr)
    status = (own / "status").read_text().splitlines()
    # Of this program alone; what getrusage() tells begins with the parent's.
    most = next(int(l.split()[1]) for l in status if l.startswith("VmHWM"))
    print(most // 1024, flush=True)
"""

pytestmark = [pytest.mark.usefixtures("java_home"), pytest.mark.timeout(600)]


@prepared_once("hq", "jfk", needs="spark")
def sites(sites: Directory) -> None:
    """An updatable snapshot of a table that nothing has analyzed."""
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, n int, b bytea)",
        "ALTER TABLE public.t ALTER b SET STORAGE EXTERNAL",
        f"INSERT INTO public.t SELECT i, 0, 'x' FROM generate_series(1, {ROWS}) i",
    )
    masters.create_snapshot_log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    refresh(sites["jfk"], "t")


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    """The most megabytes that a process of its own holds while it does something."""
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        asked, told = process.stdin, process.stdout
        assert asked is not None
        assert told is not None

        def measured(sites: Directory, work: str) -> int:
            urls = {
                name: site.url.render_as_string(hide_password=False)
                for name, site in sites.items()
            }
            print(json.dumps([urls, work]), file=asked, flush=True)
            return int(told.readline())

        yield measured
        asked.close()
        assert process.wait(timeout=60) == 0


def widen(sites: Directory, name: str, table: str) -> None:
    """Have each row hold megabytes, as users would."""
    size = f"repeat('{WIDE:02}', {WIDE * 2**20})"
    run(sites[name], f"UPDATE {table} SET b = decode({size}, 'hex')")


def test_fast_refresh(sites: Directory, memory: Memory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    widen(sites, "hq", "public.t")
    assert memory(sites, "snapshots.refresh(jfk, 't', method='f')") < MOST
    assert_equal_to_master(jfk)
    # Now both sides have them.
    run(hq, "UPDATE public.t SET n = n + 1")
    assert memory(sites, "snapshots.refresh(jfk, 't', method='f')") < MOST
    assert_equal_to_master(jfk)


def test_complete_refresh_and_check(sites: Directory, memory: Memory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    widen(sites, "hq", "public.t")
    refresh(jfk, "t")
    run(hq, "UPDATE public.t SET n = n + 1 WHERE id < 5")
    assert memory(sites, "snapshots.check(jfk, 't').snapshots[0].counts") < MOST
    assert memory(sites, "snapshots.refresh(jfk, 't', method='c')") < MOST
    assert_equal_to_master(jfk)


def test_rows_that_are_wide_at_the_site_alone(sites: Directory, memory: Memory) -> None:
    """They wait for a push: the site's own log has their keys, and no other."""
    widen(sites, "jfk", "t")
    run(sites["hq"], "INSERT INTO public.t VALUES (0, 0, '')")
    work = "snapshots.refresh(jfk, 't', push_deferred_rpc=False)"
    assert memory(sites, work) < MOST
    assert run(sites["jfk"], "SELECT octet_length(b) FROM t WHERE id = 1") == [
        (WIDE * 2**20,)
    ]
