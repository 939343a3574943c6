"""The return of a site that its master has released, with changes of its own."""

from __future__ import annotations

import itertools
from datetime import timedelta
from unittest.mock import patch

from sqlalchemy import text

import masters
import snapshots
from benchmarks.check import pass_of_sums, side_by_side
from benchmarks.conflicts import BOOK
from benchmarks.load import anew
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import create_orders, directory, tidy
from masters import ContractState, OnBreach
from masters.contracts import even_time
from masters.rules import rulebook
from sites import Directory

#: The transactions of the site's users meanwhile, of one row each, and those of them in
#: conflict. A hundred rows of the table for each of them, at least.
EDITS, CONFLICTS = 500, 10

_BASE = 'public."snap$_orders"'


def run(rows: int) -> list[Result]:
    """Push, compare and merge, against a pass of sums, and against a first load."""
    rounds = itertools.count(1)
    with directory("hq", "jfk") as sites:
        _prepare(sites, rows)
        statements = pass_of_sums(sites)
        return alternate(
            f"return of a released site: {rows:,} rows, 1 % changed, {EDITS} edits",
            Side(
                label="push and refresh",
                run=lambda: _come_back(sites),
                before=lambda: _leave(sites, rows, next(rounds)),
            ),
            Against(
                side=Side(
                    label="sums at both sides",
                    run=lambda: side_by_side(sites, statements),
                ),
                bar=2.0,
            ),
            Against(
                side=Side(
                    label="first load",
                    run=lambda: snapshots.refresh(sites["jfk"], "anew"),
                    before=lambda: anew(sites),
                ),
                bar=0.2,
            ),
        )


def _prepare(sites: Directory, rows: int) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    with hq.begin() as connection:
        create_orders(connection, rows)
    masters.create_snapshot_log(hq, "orders")
    rulebook.apply(hq, BOOK)
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    snapshots.refresh(jfk, "orders")
    anew(sites)
    snapshots.refresh(jfk, "anew")
    away = timedelta(days=30)
    snapshots.set_contract(jfk, "orders", may_be_away=away, on_breach=OnBreach.RELEASE)


def _leave(sites: Directory, rows: int, round_no: int) -> None:
    """Let the site be away for 31 days, on which hq changes each hundredth row."""
    _equal(sites)
    change = (
        "UPDATE public.orders SET qty = qty + 1,"
        " updated_at = updated_at + interval '1 s' WHERE id % 100 = :one"
    )
    with sites["hq"].begin() as connection:
        connection.execute(text(change), {"one": round_no})
    for edit in range(EDITS):
        # The first of them are rows that the master has changed, too.
        other = round_no if edit < CONFLICTS else round_no + 50
        row = edit * (rows // EDITS // 100) * 100 + other
        with sites["jfk"].begin() as connection:
            connection.execute(
                text(
                    "UPDATE public.orders SET qty = qty + 2,"
                    " updated_at = updated_at + interval '2 s' WHERE id = :row"
                ),
                {"row": row},
            )
    # Another snapshot of the table goes on: a purge keeps nothing that it has seen.
    snapshots.refresh(sites["jfk"], "anew", push_deferred_rpc=False)
    _release(sites, round_no)
    tidy(sites["hq"], "public.orders")
    tidy(sites["jfk"], _BASE)


def _release(sites: Directory, round_no: int) -> None:
    hq = sites["hq"]
    for days in (0, 31):
        now = (round_no * 100 + days) * 86400.0
        with patch.object(even_time, "reading", return_value=("machine", now)):
            masters.look_at_contracts(hq)
    masters.purge_snapshot_logs(hq)
    [found] = masters.list_contracts(hq)
    assert found.state is ContractState.RELEASED, found


def _come_back(sites: Directory) -> None:
    report = snapshots.refresh(sites["jfk"], "orders")
    assert [one.method for one in report.snapshots] == ["complete"], report
    assert report.pushed is not None
    assert (report.pushed.transactions, report.pushed.errors) == (EDITS, 0), report


def _equal(sites: Directory) -> None:
    """What was measured has done its work, and no edit is lost."""
    report = snapshots.check(sites["jfk"], "orders")
    assert report.equal, report
