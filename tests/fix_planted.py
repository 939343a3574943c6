"""Sites that have something to show on every page of the console."""

from __future__ import annotations

from datetime import UTC, datetime

import deferred
import groups
import masters
import snapshots
from deferred import schedules
from masters.rules import rulebook
from sites import Directory, Site
from snapshots import CheckReport, Count, Difference, Kind, Reason, SnapshotCheck
from snapshots.check import saved
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, push_all
from tests.linked_table import as_refresh, link, run

#: Of two names, that of headquarters stays; quantities are decided by people.
RULES = {
    "tables": {
        "orders": {
            "groups": {"names": ["name"]},
            "update": [{"group": "names", "method": "discard"}],
        }
    }
}


@prepared_once("hq", "jfk", "lax")
def planted(sites: Directory) -> None:
    """Conflicts, schedules, a check, and a group of masters.

    Of the orders at hq, the first and the third wait for a decision about their
    quantities, and the second has a name that a rule has settled.
    """
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites, "orders", "id int PRIMARY KEY, name text, qty int, note text")
    for site in (hq, jfk):
        as_refresh(
            site,
            "INSERT INTO orders VALUES (1, 'tulips', 10, NULL),"
            " (2, 'roses', 20, NULL), (3, 'asters', 30, NULL)",
        )
    rulebook.apply(hq, RULES)
    as_refresh(
        hq,
        "UPDATE orders SET qty = 99 WHERE id IN (1, 3)",
        "UPDATE orders SET name = 'red roses' WHERE id = 2",
    )
    for statement in (
        "UPDATE orders SET qty = 15 WHERE id = 1",
        "UPDATE orders SET name = 'white roses' WHERE id = 2",
        "UPDATE orders SET qty = 31, note = 'for Friday' WHERE id = 3",
    ):
        run(jfk, statement)
    deferred.push(jfk)
    _refresh_group(sites)
    _check(sites)
    _masters(sites)


def _refresh_group(sites: Directory) -> None:
    """A group, what is known of its refreshes, and schedules."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE codes (code text PRIMARY KEY)")
    masters.create_snapshot_log(hq, "codes")
    snapshots.create(jfk, "codes", master="hq", group="airport", where="code <> 'b'")
    schedules.schedule(jfk, "refresh", "airport", every="0 6 * * *")
    schedules.schedule(jfk, "purge", every="1h", record_days=7)
    _refreshes(jfk)


def _refreshes(jfk: Site) -> None:
    """Notes of refreshes: of each outcome one, the last of them failed."""
    run(
        jfk,
        "INSERT INTO snaptide.refresh_run (refresh_group, outcome, first_at, ended_at,"
        " refreshes, longest, previous_at, seconds, steps, methods, inserted, error)"
        " SELECT 'airport', outcome, now() - first, now() - last, refreshes, longest,"
        " now() - previous, 2.4, steps::jsonb, methods::text[], inserted, error FROM ("
        " VALUES ('refreshed', interval '9 h', interval '9 h', 1, NULL::interval,"
        ' NULL::interval, \'{"ask": 0.1, "window": 0.3, "load": 1.9, "merge": 0.1}\','
        " '{load}', 12000, NULL),"
        " ('nothing new', '8 h', '3 h', 6, '1 h', '9 h', '{\"ask\": 0.1}', '{fast}', 0,"
        " NULL),"
        " ('failed', '1 h', '10 min', 6, '10 min', '3 h', '{\"push\": 2.4}', '{}', 0,"
        " 'SNP-001 Site hq cannot be reached: connection refused')"
        ") AS past (outcome, first, last, refreshes, longest, previous, steps, methods,"
        " inserted, error)",
        "UPDATE snaptide.refresh_group SET refreshed_at = now() - interval '3 h'",
    )


def _masters(sites: Directory) -> None:
    """A group of two masters; a change waits at the first."""
    hq, lax = sites["hq"], sites["lax"]
    for site in (hq, lax):
        run(site, "CREATE TABLE prices (id int PRIMARY KEY, price numeric)")
    groups.create_group(hq, GROUP)
    groups.add_table(hq, GROUP, "prices")
    groups.add_master(hq, GROUP, "lax")
    run(hq, "INSERT INTO prices VALUES (1, 9.99)")
    push_all({"hq": hq, "lax": lax})
    run(hq, "UPDATE prices SET price = 8.99")


def _check(sites: Directory) -> None:
    """A saved check: one row differs without a reason, and one waits."""
    rows = (
        _differing(1, Reason.UNEXPLAINED, "tulips", "daffodils"),
        _differing(2, Reason.PENDING, "red roses", "white roses"),
    )
    found = SnapshotCheck(
        name="public.orders",
        group="airport",
        master="hq",
        table="public.orders",
        position="1:1:",
        moment_here="1:1:",
        moment_master="1:1:",
        rows_master=12_345,
        rows_here=12_344,
        counts=tuple(Count(kind=row.kind, reason=row.reason, rows=1) for row in rows),
        differences=rows,
        unproven=None,
    )
    report = CheckReport(
        site="jfk",
        where="id < 9",
        columns=(),
        most=20_000,
        snapshots=(found,),
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        seconds=1.5,
    )
    saved.save(sites["jfk"], report)


def _differing(key: int, reason: Reason, master: str, here: str) -> Difference:
    return Difference(
        kind=Kind.DIFFERS,
        reason=reason,
        key={"id": str(key)},
        columns=("name",),
        master={"name": master},
        here={"name": here},
    )
