"""What a synchronous transaction costs: against plain ones, alone and with others."""

from __future__ import annotations

import secrets
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import psycopg
from sqlalchemy import text

import synchronous
from benchmarks.pairs import Result, compared
from benchmarks.setting import create_orders, directory, slow_down
from deferred.queues import define
from sites import Directory, Site, names
from sites.tables.table import describe

#: Clients that write at once.
CLIENTS = 8

#: Transactions of each round, of all clients together, and rounds of them.
TOGETHER = 400
ROUNDS = 5


def run(rows: int) -> list[Result]:
    """Single-row transactions at a site and its master.

    Parameters:
        rows: how many transactions; of each kind, in turn.
    """
    with directory("hq", "jfk") as sites:
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, 10_000)
                create_orders(connection, 10_000, "bare")
        _link(sites)
        results = [*_alone(sites, rows), *_together(sites)]
        slowed = slow_down(sites["jfk"])
        return [*results, *_alone(sites, rows, slowed), *_together(sites, slowed)]


def _link(sites: Directory) -> None:
    """The table at jfk queues for hq, without the snapshot around it."""
    with sites["jfk"].transaction() as connection:
        connection.execute(
            text(
                "CREATE TABLE snaptide.extra (k1 int, reason text, xid xid8"
                " DEFAULT pg_current_xact_id(), batch_no bigint, order_no bigint,"
                " master_xid xid8)"
            )
        )
        base = describe(connection, names.parse("orders"))
        define.create_queue(
            connection,
            snapshot="orders",
            base=base,
            destination="hq",
            target=names.parse("orders"),
            columns=base.names,
            identity=base.key,
            partial=False,
            extra_table="extra",
            refuse_new_keys=False,
            synchronous=True,
        )


def _alone(sites: Directory, transactions: int, how: str = "") -> list[Result]:
    """One writer; each kind of transaction in turn, so that all meet one machine."""
    name = f"synchronous: one row, one writer{how}"
    plain = Plain(sites)
    synchronous, two, both, program = [], [], [], []
    for number in range(transactions + 20):
        key = number % 10_000 + 1
        synchronous.append(_seconds(partial(_change, sites["jfk"], key)))
        two.append(_seconds(partial(plain.two_commits, key)))
        both.append(_seconds(partial(plain.both_prepared, key)))
        program.append(_seconds(partial(_both_prepared, sites, key)))
    plain.close()
    against = (
        (two, "two plain commits", 2.5),
        (both, "both prepared, decision written", 1.0),
        (program, "the same by SQLAlchemy's two-phase transactions", 1.0),
    )
    return [
        _of_medians(name, synchronous[20:], others[20:], label, bar)
        for others, label, bar in against
    ]


def _of_medians(
    name: str, values: list[float], others: list[float], label: str, bar: float
) -> Result:
    """Medians of a tenth of the transactions each, in their order."""
    size = max(len(values) // 10, 1)
    parts = [
        [statistics.median(v[n : n + size]) for n in range(0, len(v), size)]
        for v in (values, others)
    ]
    return compared(name, "synchronous", label, *parts, bar=bar)


def _together(sites: Directory, how: str = "") -> list[Result]:
    """Eight writers against one: seconds for the same number of transactions."""
    alone, several = [], []
    for _ in range(ROUNDS):
        alone.append(_seconds(lambda: _writers(sites["jfk"], 1)))
        several.append(_seconds(lambda: _writers(sites["jfk"], CLIENTS)))
    name = f"synchronous: {TOGETHER} transactions{how}"
    result = compared(name, f"{CLIENTS} writers", "1 writer", several, alone, bar=1 / 3)
    return [result]


def _writers(site: Site, count: int) -> None:
    def write(first: int) -> None:
        for number in range(TOGETHER // count):
            _change(site, first * 1000 + number + 1)

    threads = [threading.Thread(target=write, args=[n]) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _change(site: Site, key: int) -> None:
    with synchronous.begin(site) as connection:
        connection.execute(_UPDATE_ORDERS, {"id": key})


def _both_prepared(sites: Directory, key: int) -> None:
    """The classic form as a program writes it that has no coordinator of ours."""
    gid = secrets.token_hex(8)
    with ExitStack() as stack:
        lines = {n: stack.enter_context(sites[n].connect()) for n in ("jfk", "hq")}
        halves = [one.begin_twophase(f"{gid}_{name}") for name, one in lines.items()]
        for line in lines.values():
            line.execute(_UPDATE_BARE, {"id": key})
        for half in halves:
            half.prepare()
        with sites["jfk"].begin() as connection:
            connection.execute(_DECIDE, {"gid": gid})
        for half in halves:
            half.commit()


class Plain:
    """The same change of a table without triggers, at both sites, by bare SQL."""

    def __init__(self, sites: Directory) -> None:
        self._site, self._master = (_connect(sites[name]) for name in ("jfk", "hq"))
        self._site.execute(
            "CREATE TABLE IF NOT EXISTS public.decision (gid text PRIMARY KEY)"
        )

    def close(self) -> None:
        """Close both connections."""
        self._site.close()
        self._master.close()

    def two_commits(self, key: int) -> None:
        """Change and commit here, then there."""
        for line in (self._site, self._master):
            line.execute("BEGIN")
            line.execute(_UPDATE, [key])
            line.execute("COMMIT")

    def both_prepared(self, key: int) -> None:
        """The classic form: prepare both, write the decision durably, commit both."""
        gid = secrets.token_hex(8)
        for line in (self._site, self._master):
            line.execute("BEGIN")
            line.execute(_UPDATE, [key])
        for line in (self._site, self._master):
            line.execute(f"PREPARE TRANSACTION '{gid}_{line.info.dbname}'")
        self._site.execute("INSERT INTO public.decision VALUES (%s)", [gid])
        for line in (self._site, self._master):
            line.execute(f"COMMIT PREPARED '{gid}_{line.info.dbname}'")


_UPDATE_ORDERS = text("UPDATE public.orders SET qty = qty + 1 WHERE id = :id")
_UPDATE_BARE = text("UPDATE public.bare SET qty = qty + 1 WHERE id = :id")
_DECIDE = text("INSERT INTO public.decision VALUES (:gid)")
_UPDATE = "UPDATE public.bare SET qty = qty + 1 WHERE id = %s"


def _connect(site: Site) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(site.libpq_uri(), autocommit=True)


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
