"""Coordinated transactions in doubt, in the console."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy import text

import synchronous
from sites import Directory, faults
from tests.console import Browser, console
from tests.coordinated import prepared
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import link, run, run_everywhere
from tests.silence import silent


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """The table `orders` at both sites, with one row, propagated synchronously."""
    link(sites, "orders", "id int PRIMARY KEY, qty int", synchronous=True)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 1)")


@pytest.fixture
def left(linked: Directory, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a coordinator has left in doubt at hq, which jfk has decided."""

    class Gone(BaseException):
        pass

    def stop(name: str) -> None:
        if name == "synchronous.after_decision":
            raise Gone

    def say_nothing(*args: object) -> None:
        raise args[-1]  # type: ignore[misc]

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", stop)
        patch.setattr("synchronous.commit._find_out", say_nothing)
        with pytest.raises(Gone), synchronous.begin(linked["jfk"]) as connection:
            connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
    [gid] = prepared(linked["hq"])
    return gid


def test_nothing_in_doubt(linked: Directory, tmp_path: Path) -> None:
    browser = Browser(console(linked, tmp_path))
    assert "No coordinated transaction is in doubt" in browser.get("/sites/hq/indoubt")
    assert 'href="/sites/hq/indoubt"' in browser.get("/sites/hq")


def test_what_is_in_doubt_is_shown_and_not_ended(
    linked: Directory, left: str, tmp_path: Path
) -> None:
    browser = Browser(console(linked, tmp_path))
    page = browser.get("/sites/hq/indoubt")
    for said in (left, "prepared", "commit", "snaptide indoubt recover hq"):
        assert said in page
    assert "decided" in browser.get("/sites/jfk/indoubt")
    assert prepared(linked["hq"]) == [left]
    synchronous.recover(linked["hq"])


def test_a_deciding_site_that_is_silent(
    linked: Directory, left: str, tmp_path: Path
) -> None:
    with silent(linked, "jfk") as some:
        page = Browser(console(some, tmp_path, patience=4.0)).get("/sites/hq/indoubt")
        assert left in page
        assert "Other sites take long to answer" in page
    with silent(linked, "hq") as some:
        page = Browser(console(some, tmp_path, patience=4.0)).get("/sites/jfk/indoubt")
        assert "decided" in page
        assert "Other sites take long to answer" in page
    synchronous.recover(linked["hq"])


def test_many_with_hostile_names(linked: Directory, tmp_path: Path) -> None:
    run(
        linked["hq"],
        "INSERT INTO snaptide.heuristic_decision (gid, decision, decided_by)"
        " SELECT '<script>alert(1)</script>' || n, 'commit', repeat('\"<', 300)"
        " FROM generate_series(1, 10000) n",
    )
    browser = Browser(console(linked, tmp_path))
    page = browser.get("/sites/hq/indoubt")
    assert len(page.encode()) < 80_000
    assert "<script>alert" not in page
    shown = page.count("heuristic")
    assert f"1 to {shown} of 10,000" in page
    [after] = re.findall(r'href="\?(from=\d+)"', page)
    assert f"{shown + 1} to" in browser.get(f"/sites/hq/indoubt?{after}")


def test_a_site_that_is_away(linked: Directory, tmp_path: Path) -> None:
    with without(linked, "hq") as some:
        browser = Browser(console(some, tmp_path, patience=4.0))
        assert "The site does not answer" in browser.get("/sites/hq/indoubt", 503)
