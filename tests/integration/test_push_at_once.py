"""Many rows are compared and written by one statement, where nobody else is at work."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
import pytest

import deferred
from deferred.errors import PushInterrupted
from masters.apply import at_once
from sites import Directory
from tests.fix_moments import Moments
from tests.fix_worlds import prepared_once
from tests.linked_table import link, rows, run

#: So many are written at once.
MANY = at_once.MANY + 500

WRITTEN = "push.after_at_once"

CHANGES = {
    "update": "UPDATE items SET qty = qty + 1",
    "delete": "DELETE FROM items WHERE id > 1",
}

ONE = {
    "update": "UPDATE items SET qty = 1 WHERE id = 700",
    "delete": "DELETE FROM items WHERE id = 700",
}


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """Rows at both sites, and no unique value but the key."""
    link(sites, "items", "id int PRIMARY KEY, qty int, note text")
    series = f"SELECT g, 0, 'note' FROM generate_series(1, {MANY}) g"
    run(sites["jfk"], f"INSERT INTO items {series}")
    deferred.push(sites["jfk"])


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_rows_that_agree_are_written_at_once(
    linked: Directory, moments: Moments, change: str
) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    run(hq, "TRUNCATE snaptide.mlog$_items")
    run(jfk, change)
    assert deferred.push(jfk).errors == 0
    assert WRITTEN in moments.reached
    assert rows(hq, "items") == rows(jfk, "items")
    [(captured,)] = run(hq, "SELECT count(*) FROM snaptide.mlog$_items")
    assert captured == MANY - ("DELETE" in change)


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_one_row_that_disagrees_takes_all_back(
    linked: Directory,
    moments: Moments,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    monkeypatch.setattr(at_once, "SAMPLED", 10**9)  # so it is not seen beforehand
    hq, jfk = linked["hq"], linked["jfk"]
    run(hq, "UPDATE items SET qty = 7 WHERE id = 700")
    before = rows(hq, "items")
    run(jfk, change)
    assert deferred.push(jfk).errors == 1
    assert WRITTEN in moments.reached
    assert rows(hq, "items") == before
    [error] = deferred.list_errors(hq)
    assert error.reason == "conflict"


def test_a_row_in_conflict_that_is_looked_at_has_nothing_written(
    linked: Directory, moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "SAMPLED", 1)
    run(linked["hq"], "UPDATE items SET qty = 7 WHERE id = 700")
    run(linked["jfk"], CHANGES["update"])
    assert deferred.push(linked["jfk"]).errors == 1
    assert WRITTEN not in moments.reached


@pytest.mark.parametrize("changes", [CHANGES, ONE], ids=["many", "one"])
def test_a_row_that_changes_meanwhile_is_in_conflict(
    linked: Directory, moments: Moments, changes: Mapping[str, str]
) -> None:
    """Between the look at some rows and the write of all, or before that of one."""
    hq, jfk = linked["hq"], linked["jfk"]
    run(jfk, changes["update"])
    moments.at(
        "push.before_at_once",
        lambda: run(hq, "UPDATE items SET qty = 7 WHERE id = 700"),
    )
    assert deferred.push(jfk).errors == 1
    assert run(hq, "SELECT sum(qty) FROM items") == [(7,)]


def test_rows_are_locked_first_beside_a_user_who_writes(
    linked: Directory, moments: Moments
) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    run(jfk, CHANGES["update"])
    with psycopg.connect(hq.libpq_uri()) as user:
        user.execute("INSERT INTO public.items VALUES (0, 0, 'mine')")
        assert deferred.push(jfk).errors == 0
    assert WRITTEN not in moments.reached
    assert run(hq, "SELECT sum(qty) FROM items") == [(MANY,)]


def test_what_a_trigger_refuses_is_parked_as_ever(
    linked: Directory, moments: Moments
) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    run(
        hq,
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN RAISE EXCEPTION 'not row 700'; END $$",
        "CREATE TRIGGER refuse BEFORE UPDATE ON public.items FOR EACH ROW"
        " WHEN (new.id = 700) EXECUTE FUNCTION public.refuse()",
    )
    run(jfk, CHANGES["update"])
    assert deferred.push(jfk).errors == 1
    [error] = deferred.list_errors(hq)
    assert "not row 700" in error.error_message
    assert run(hq, "SELECT sum(qty) FROM items") == [(0,)]


@pytest.mark.parametrize("change", ONE.values(), ids=list(ONE))
@pytest.mark.parametrize("theirs", [None, 7])
def test_one_row_is_written_at_once_beside_others_who_write(
    linked: Directory, moments: Moments, change: str, theirs: int | None
) -> None:
    """And if it disagrees, it is in conflict, and nothing of it stays."""
    hq, jfk = linked["hq"], linked["jfk"]
    if theirs is not None:
        run(hq, f"UPDATE items SET qty = {theirs} WHERE id = 700")
    run(jfk, change)
    with psycopg.connect(hq.libpq_uri()) as user:
        user.execute("INSERT INTO public.items VALUES (0, 0, 'mine')")
        assert deferred.push(jfk).errors == (theirs is not None)
        user.rollback()
    assert WRITTEN in moments.reached
    there = [row for row in rows(hq, "items") if row[0] == 700]
    agrees = [row for row in rows(jfk, "items") if row[0] == 700]
    assert there == (agrees if theirs is None else [(700, theirs, "note")])


def test_what_was_cancelled_is_not_begun_in_another_way(linked: Directory) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    run(
        hq,
        "CREATE SEQUENCE public.begun",
        "CREATE FUNCTION public.cancelled() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN PERFORM nextval('public.begun');"
        " RAISE EXCEPTION 'cancelled' USING ERRCODE = 'query_canceled'; END $$",
        "CREATE TRIGGER cancelled BEFORE UPDATE ON public.items"
        " EXECUTE FUNCTION public.cancelled()",
    )
    run(jfk, CHANGES["update"])
    with pytest.raises(PushInterrupted):
        deferred.push(jfk)
    assert run(hq, "SELECT last_value FROM public.begun") == [(1,)]
