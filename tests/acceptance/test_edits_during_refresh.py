"""A user edits in the middle of a refresh: what he wrote stays, whenever it was."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection

import deferred
import snapshots
from sites import Directory, Site
from snapshots.merging import held_back, merge, writing
from snapshots.merging.work import Work
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.let_go import WAITS
from tests.linked_table import run
from tests.stories import (
    assert_equal_to_master,
    column_groups,
    refresh,
    settle,
    user,
)

pytestmark = pytest.mark.usefixtures("spark")

#: Rows of one case: what the master does to each, and what the site does meanwhile.
BLOCK = 10

AT_MASTER = (
    "UPDATE public.t SET a = 'hq' WHERE id % 10 IN (1, 4)",
    "DELETE FROM public.t WHERE id % 10 IN (2, 7)",
    "INSERT INTO public.t SELECT i * 10 + 6, 'hq', 'hq' FROM generate_series(0, 8) i",
)

EDITS = {
    1: "UPDATE public.t SET b = 'mine' WHERE id = %s",
    2: "UPDATE public.t SET b = 'mine' WHERE id = %s",
    3: "UPDATE public.t SET b = 'mine' WHERE id = %s",
    4: "DELETE FROM public.t WHERE id = %s",
    5: "DELETE FROM public.t WHERE id = %s",
    6: "INSERT INTO public.t VALUES (%s, 'mine', 'mine')",
    9: "INSERT INTO public.t VALUES (%s, 'mine', 'mine')",
}

#: What the rows are in the end, at both sites: columns a and b of row 1 were
#: changed by one each. (What the site edited and the master changed meanwhile in
#: the same columns is a conflict that no rule settles: the master's state stands.)
SETTLED = {1: ("hq", "mine"), 3: ("old", "mine"), 9: ("mine", "mine")}


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, a text, b text)",
        "INSERT INTO public.t SELECT i, 'old', 'old'"
        " FROM generate_series(0, 89) i WHERE i % 10 NOT IN (6, 9)",
    )
    log(hq, "t")
    column_groups(hq, "t", {"a": "", "b": ""})
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")


class Editor:
    """Makes all edits of one block of rows, each in a transaction of its own.

    In a thread: an edit of a row that the merge has locked waits for its commit.
    """

    def __init__(self, site: Site, block: int, *, push: bool) -> None:
        self.site, self.block, self.push = site, block, push
        self.made: set[int] = set()
        self.surprise: BaseException | None = None
        self._session = 0
        self._thread = threading.Thread(target=self._run)

    def begin(self) -> None:
        """Begin to edit; returns when all is done or something has to wait."""
        self._thread.start()
        eventually(self._is_done_or_waits, what="the edits")

    def end(self) -> None:
        """Wait until all is done."""
        self._thread.join(timeout=180)
        assert not self._thread.is_alive()
        if self.surprise:
            raise self.surprise

    def _is_done_or_waits(self) -> bool:
        if not self._thread.is_alive():
            return True
        return bool(run(self.site, f"{WAITS} AND pid = {self._session}")) or any(
            run(site, f"{WAITS} AND application_name = 'snaptide'")
            for site in self.site.directory.values()
        )

    def _run(self) -> None:
        try:
            for number in EDITS:
                self._edit(number)
            if self.push:
                deferred.push(self.site)
        except BaseException as error:
            self.surprise = error

    def _edit(self, number: int) -> None:
        with user(self.site) as session:
            session.execute("SET lock_timeout = '120s'")
            self._session = session.info.backend_pid
            try:
                done = session.execute(EDITS[number], [self.block + number])
            except psycopg.errors.UniqueViolation:
                return  # the refresh was there first
            session.commit()
            if done.rowcount:
                self.made.add(number)

    def assert_stands(self) -> None:
        """What was edited is there as it was edited."""
        for number in self.made:
            row = run(
                self.site,
                f"SELECT b FROM public.t WHERE id = {self.block + number}",
            )
            gone = EDITS[number].startswith("DELETE")
            assert row == ([] if gone else [("mine",)]), (self.block, number)


#: Where an edit can come between what a merge does: it writes all at once, sees that
#: users came between, takes that back, and locks before it writes.
INSIDE = {
    "before pending is read": (held_back, "hold_pending"),
    "before all is written": (writing, "write_all"),
    "after all is written": (writing, "_check_references"),
    "before the locks": (held_back, "hold_locked"),
    "before the write": (writing, "write_free"),
}
POINTS = (
    "refresh.after_window",
    "refresh.after_stage",
    "refresh.before_merge_commit",
    "refresh.after_merge",
)


@pytest.fixture
def at(
    moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Callable[[], object]], None]:
    """Have something done at a fault point, or before a step of the merge."""
    monkeypatch.setattr(merge, "IDLE_TIMEOUT", "300s")

    def at(moment: str, do: Callable[[], object]) -> None:
        if moment not in INSIDE:
            moments.at(moment, do)
            return
        module, name = INSIDE[moment]
        step, left = getattr(module, name), [do]

        def edited(*args: object) -> object:
            while left:
                left.pop()()
            return step(*args)

        monkeypatch.setattr(module, name, edited)

    return at


@pytest.mark.parametrize("push", [False, True], ids=["edited", "pushed"])
def test_edits_at_every_moment(hq: Site, jfk: Site, at, *, push: bool) -> None:
    run(hq, *AT_MASTER)
    editors = []
    for n, moment in enumerate((*POINTS[:2], *INSIDE, *POINTS[2:])):
        editor = Editor(jfk, n * BLOCK, push=push)
        editors.append(editor)
        at(moment, editor.begin)
    refresh(jfk, "t")
    for editor in editors:
        editor.end()
    for editor in editors:
        editor.assert_stands()
        # No edit but those of rows that had just gone or come found no row.
        assert editor.made >= {1, 3, 5, 9}
    _assert_settled(hq, jfk, len(editors))


def _assert_settled(hq: Site, jfk: Site, blocks: int) -> None:
    settle(jfk)
    assert_equal_to_master(jfk)
    found = {row[0]: row[1:] for row in run(hq, "SELECT id, a, b FROM public.t")}
    for block in range(0, blocks * BLOCK, BLOCK):
        for number, row in SETTLED.items():
            assert found[block + number] == row, (block, number)
        assert not found.keys() & {block + 2, block + 5}
        assert found[block + 6] == ("hq", "hq")
        # Deleted where the site had seen what the master did to it.
        assert found.get(block + 4, ("hq", "old")) == ("hq", "old")
    assert found[4] == ("hq", "old")


@contextmanager
def open_edits(site: Site) -> Iterator[Callable[[], None]]:
    """All edits of one block, made and not committed; the function commits them."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(user(site)) for _ in EDITS]
        for session, (number, statement) in zip(sessions, EDITS.items(), strict=True):
            session.execute(statement, [number])

        def commit() -> None:
            for session in sessions:
                session.commit()

        yield commit


def test_open_edits_are_not_waited_for(hq: Site, jfk: Site) -> None:
    run(hq, *AT_MASTER)
    with open_edits(jfk) as commit:
        report = refresh(jfk, "t")["t"]
        # 1, 2 and 4 are locked, 6 is about to be there.
        assert report.held_back == 4
        # The rest of the window came, beside them.
        assert run(jfk, "SELECT a FROM public.t WHERE id = 11") == [("hq",)]
        commit()
    assert run(jfk, "SELECT count(*) FROM public.t WHERE b = 'mine'") == [(5,)]
    assert refresh(jfk, "t")["t"].held_back == len(EDITS)
    assert run(jfk, "SELECT count(*) FROM public.t WHERE b = 'mine'") == [(5,)]
    _assert_settled(hq, jfk, 1)


def test_rows_are_locked_first_where_others_write(
    hq: Site, jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[object] = []
    lock = held_back.hold_locked

    def watched(connection: Connection, changes: Work) -> int:
        locked.append(changes)
        return lock(connection, changes)

    monkeypatch.setattr(held_back, "hold_locked", watched)
    run(hq, "UPDATE public.t SET a = 'first' WHERE id = 1")
    assert refresh(jfk, "t")["t"].updated == 1
    assert not locked
    run(hq, "UPDATE public.t SET a = 'second' WHERE id < 10")
    with user(jfk) as session:
        session.execute("UPDATE public.t SET b = 'mine' WHERE id = 4")
        assert refresh(jfk, "t")["t"].held_back == 1
    assert locked
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "NO ACTION"])
def test_child_that_a_user_adds_meanwhile_is_not_reached_by_an_action(
    sites: Directory, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """Where a key acts, its parents are locked first, and the user waits."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.p (id int PRIMARY KEY)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int REFERENCES public.p"
        f" ON DELETE {action})",
        "INSERT INTO public.p VALUES (1), (2)",
    )
    for table in ("p", "c"):
        log(hq, table)
        snapshots.create(jfk, table, master="hq", group="pair", updatable=True)
    refresh(jfk, "pair")
    run(hq, "DELETE FROM public.p WHERE id = 1")

    def add() -> None:
        with user(jfk) as session, suppress(psycopg.errors.LockNotAvailable):
            session.execute("SET lock_timeout = '200ms'")
            session.execute("INSERT INTO public.c VALUES (7, 1)")
            session.commit()
            added.append(7)

    def watched(*args: Any) -> object:
        """What is held back is decided."""
        if not tried:
            tried.append(True)
            add()
        return steps(*args)

    added, tried, steps = list[int](), list[bool](), writing._steps
    monkeypatch.setattr(writing, "_steps", watched)
    refresh(jfk, "pair")
    assert tried
    assert run(jfk, "SELECT id, p FROM public.c") == [(7, 1) for _ in added]


def test_open_edit_that_is_taken_back(hq: Site, jfk: Site) -> None:
    run(hq, *AT_MASTER)
    with open_edits(jfk):
        refresh(jfk, "t")
    # Nothing is queued, and the refresh that comes settles what was held back.
    assert refresh(jfk, "t")["t"].held_back == 0
    assert_equal_to_master(jfk)


def test_edit_delivered_between_window_and_merge_is_not_reverted(
    hq: Site, jfk: Site, moments: Moments
) -> None:
    """The master has it by then; the moment that the refresh shows has not."""

    def edit_and_push() -> None:
        run(jfk, "UPDATE public.t SET b = 'mine' WHERE id = 1")
        assert deferred.push(jfk).errors == 0
        deferred.purge(jfk)

    run(hq, "UPDATE public.t SET a = 'hq' WHERE id = 1")
    moments.at("refresh.after_window", edit_and_push)
    report = refresh(jfk, "t")["t"]
    assert report.held_back == 1
    assert run(jfk, "SELECT a, b FROM public.t WHERE id = 1") == [("old", "mine")]
    refresh(jfk, "t")
    assert run(jfk, "SELECT a, b FROM public.t WHERE id = 1") == [("hq", "mine")]
    assert_equal_to_master(jfk)


def test_user_is_not_the_victim_of_a_deadlock(hq: Site, jfk: Site, at) -> None:
    """He has waited for the merge, and the database looks who waits for whom."""
    run(hq, *AT_MASTER)
    with user(jfk) as writer:
        writer.execute("SET deadlock_timeout = '90s'")
        # A key that the merge wants, and then a row that it has locked.
        writer.execute("INSERT INTO public.t VALUES (6, 'mine', 'mine')")
        waiting = threading.Thread(target=lambda: told.append(_execute(writer)))
        told: list[str | None] = []

        def wait() -> None:
            waiting.start()
            # The database looks for a deadlock when a wait has lasted for 90 seconds.
            waiting.join(timeout=1)
            assert not told

        at("before the write", wait)
        refresh(jfk, "t")
        waiting.join(timeout=180)
        assert told == [None]
        writer.commit()
    assert run(jfk, "SELECT a, b FROM public.t WHERE id = 1") == [("hq", "mine")]
    settle(jfk)
    assert_equal_to_master(jfk)


def _execute(session: psycopg.Connection) -> str | None:
    try:
        session.execute("UPDATE public.t SET b = 'mine' WHERE id = 1")
    except psycopg.Error as error:
        return error.sqlstate
    return None
