"""A check of rows that were written lately finds these, and leaves out the others."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import snapshots
from deferred import schedules
from sites import Directory, Site, configured
from sites.configured import Configuration
from snapshots import CheckRefused, NoCommitTimes, RowsDiffer, tasks
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_check import unseen
from tests.linked_table import as_refresh, run, scalar
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

BASE = 'public."snap$_t"'
TABLES = (
    "CREATE TABLE public.t (id int PRIMARY KEY, note text)",
    "INSERT INTO public.t SELECT g, 'old' FROM generate_series(1, 9) g",
    "CREATE TABLE public.p (id int PRIMARY KEY, note text) PARTITION BY RANGE (id)",
    "CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (1) TO (5)",
    "CREATE TABLE public.p2 PARTITION OF public.p FOR VALUES FROM (5) TO (99)",
    "INSERT INTO public.p SELECT g, 'old' FROM generate_series(1, 9) g",
)


def made(hq: Site, jfk: Site) -> None:
    run(hq, *TABLES)
    log(hq, "t", "p")
    for name in ("t", "p"):
        snapshots.create(jfk, name, master="hq", updatable=True)
        refresh(jfk, name)


@pytest.fixture
def timed(sites_with_commit_times: Directory) -> Directory:
    made(sites_with_commit_times["hq"], sites_with_commit_times["jfk"])
    return sites_with_commit_times


def written_at(site: Site, table: str, number: int) -> datetime:
    query = f"SELECT pg_xact_commit_timestamp(xmin) FROM {table} WHERE id = {number}"
    found: datetime = scalar(site, query)
    return found


def found(jfk: Site, after: datetime, *names: str, **options: Any) -> set[str | None]:
    """The keys of rows that differ, of those that were written after a time."""
    report = snapshots.check(
        jfk, names, since=datetime.now(UTC) - after, save=True, **options
    )
    assert report.run is not None
    assert snapshots.show_check(jfk, report.run) == report
    assert "pg_xact_commit_timestamp" in (report.where or "")
    return {row.key["id"] for one in report.snapshots for row in one.differences}


def test_rows_that_were_written_since(timed: Directory) -> None:
    hq, jfk = timed["hq"], timed["jfk"]
    as_refresh(jfk, f"UPDATE {BASE} SET note = 'early' WHERE id = 1")
    # So a time in the middle lies between the two.
    run(jfk, "SELECT pg_sleep(0.3)")
    assert snapshots.check(jfk).unexplained == 1
    as_refresh(
        jfk,
        f"UPDATE {BASE} SET note = 'late' WHERE id IN (2, 6)",
        f"DELETE FROM {BASE} WHERE id IN (4, 5)",
        f"INSERT INTO {BASE} VALUES (70, 'late')",
        "UPDATE public.\"snap$_p\" SET note = 'late' WHERE id = 7",
    )
    unseen(
        hq,
        "public.t",
        "UPDATE public.t SET note = 'there' WHERE id IN (3, 5)",
        "DELETE FROM public.t WHERE id IN (6, 8)",
    )
    early, late = written_at(jfk, BASE, 1), written_at(jfk, BASE, 2)
    assert late - early > timedelta(milliseconds=200)
    between = early + (late - early) / 2
    # Rows 4 and 8 were deleted at one side, and not written at the other.
    late_ones = {"2", "3", "5", "6", "70"}
    assert found(jfk, between, "t") == late_ones
    assert found(jfk, between, "t", gently=True) == late_ones
    assert found(jfk, between, "p") == {"7"}
    assert found(jfk, between, "t", where="id < 6") == {"2", "3", "5"}
    # Within a century everything was written, also what one side still has of these.
    assert snapshots.check(jfk, "t", since=timedelta(days=36525)).unexplained == 8


def test_a_schedule_checks_what_was_written_since(
    timed: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk = timed["jfk"]
    monkeypatch.setattr(configured, "_current", Configuration(directory=timed))
    as_refresh(jfk, f"UPDATE {BASE} SET note = 'early' WHERE id = 1")
    made = schedules.schedule(jfk, "check", "t", every="1h", since="2h")
    with pytest.raises(RowsDiffer):
        tasks.check("jfk", "t", **made.options)
    [report] = snapshots.list_checks(jfk)
    assert "pg_xact_commit_timestamp" in (report.where or "")
    assert report.unexplained == 1


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    made(sites["hq"], sites["jfk"])


def test_refusals(jfk: Site, snaptide: Snaptide) -> None:
    with pytest.raises(NoCommitTimes):
        snapshots.check(jfk, since=timedelta(hours=2))
    for wrong in (timedelta(0), timedelta(hours=-1), timedelta.max):
        with pytest.raises(CheckRefused):
            snapshots.check(jfk, since=wrong)
    done = snaptide("check", "jfk", "t", "--since", "2h")
    assert (done.exit_code, "SNP-274" in done.stderr) == (1, True)
    assert snaptide("check", "jfk", "--since", "0s").exit_code == 1
    assert snaptide("check", "jfk", "--since", "yesterday").exit_code == 2
