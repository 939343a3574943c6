"""Several destinations are pushed to at the same time, each by itself."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import deferred
from deferred import tasks
from deferred.errors import DestinationDisabled
from deferred.queues.backlog import set_disabled
from sites import Directory, configured
from sites.errors import SiteUnreachable
from sites.progress import Progress
from tests.linked_table import application, link, run


@pytest.fixture
def masters(make_sites: Callable[..., Directory]) -> Directory:
    """A site whose table `a` has its master at hq, and `b` at lga; both changed."""
    sites = make_sites("hq", "lga", "jfk")
    _link(sites, "a", "hq")
    _link(sites, "b", "lga")
    for table in ("a", "b"):
        run(sites["jfk"], f"INSERT INTO {table} VALUES (1)")
    return sites


def test_a_slow_destination_keeps_no_other_waiting(masters: Directory) -> None:
    """The push to hq stands until the one to lga has ended."""
    hq, jfk = masters["hq"], masters["jfk"]
    ended = threading.Event()

    @contextmanager
    def shown(name: str) -> Iterator[Progress | None]:
        yield None
        if name == "lga":
            ended.set()

    user = application(hq)
    user.execute("LOCK TABLE snaptide.push_marker IN ACCESS EXCLUSIVE MODE")

    def release() -> None:
        ended.wait(90)
        user.commit()

    released = threading.Thread(target=release)
    released.start()
    pushes = deferred.push_all(jfk, shown=shown)
    released.join()
    user.close()
    assert ended.is_set()
    assert {r.destination: r.transactions for r in pushes.reports} == {
        "hq": 1,
        "lga": 1,
    }
    assert run(hq, "SELECT id FROM a") == run(masters["lga"], "SELECT id FROM b")


def test_one_that_is_away_fails_alone(masters: Directory) -> None:
    jfk, lga = (
        masters[name].url.render_as_string(hide_password=False)
        for name in ("jfk", "lga")
    )
    far = Directory({"jfk": jfk, "lga": lga, "hq": "postgresql://u:p@127.0.0.1:1/hq"})
    pushes = deferred.push_all(far["jfk"])
    far.close()
    assert [report.destination for report in pushes.reports] == ["lga"]
    with pytest.raises(SiteUnreachable):
        pushes.raise_first()


def test_a_task_for_all_leaves_out_what_is_paused(
    masters: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configured, "site", masters.__getitem__)
    set_disabled(masters["jfk"], "hq", disabled=True)
    tasks.push("jfk")
    assert run(masters["lga"], "SELECT id FROM b") == [(1,)]
    with pytest.raises(DestinationDisabled):
        tasks.push("jfk", "hq")


def _link(sites: Directory, table: str, master: str) -> None:
    link({"hq": sites[master], "jfk": sites["jfk"]}, table, "id int PRIMARY KEY")
    if master != "hq":
        run(
            sites["jfk"],
            f"UPDATE snaptide.route r SET destination = '{master}'"
            f" FROM snaptide.queue q WHERE q.id = r.queue_id"
            f" AND q.target_table = '{table}'",
            "INSERT INTO snaptide.destination (name, window_end)"
            f" VALUES ('{master}', pg_current_snapshot())",
        )
