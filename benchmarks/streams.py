"""What several streams gain, where the way to the master is long.

Transactions are applied one by one, and each message to the master, and each answer,
takes a few milliseconds. Beside the master streams gain nothing: there, one processor
does what the push itself does between two statements.
"""

from __future__ import annotations

from collections.abc import Callable

import deferred
import masters
from benchmarks import push
from benchmarks.pairs import Result, Side, compared, seconds
from benchmarks.setting import create_orders, directory, far_master, tidy
from sites import Directory

#: 1.5 times the rate of one stream.
BAR = 1 / 1.5

#: How many work side by side.
STREAMS = (2, 4)


def run(transactions: int) -> list[Result]:
    """Transactions of one row each, of as many rows, in the order of the log."""
    with directory("hq", "jfk") as sites:
        for site in sites.values():
            with site.begin() as connection:
                create_orders(connection, transactions)
        masters.create_snapshot_log(sites["hq"], "orders")
        push.link(sites)
        with far_master(sites) as far:
            return _compared(sites, far, transactions)


def _compared(sites: Directory, far: Directory, transactions: int) -> list[Result]:
    def before() -> None:
        push.commit_each(sites, "orders", transactions, transactions)
        masters.purge_snapshot_logs(sites["hq"])
        for site in sites.values():
            tidy(site, "public.orders")

    one, *several = seconds(
        [
            Side(label=_label(n), run=_pushed(far, n), before=before)
            for n in (1, *STREAMS)
        ]
    )
    return [
        compared(
            f"push: {transactions:,} transactions of one row, answers after 5 ms",
            _label(n),
            _label(1),
            times,
            one,
            bar=BAR,
        )
        for n, times in zip(STREAMS, several, strict=True)
    ]


def _label(streams: int) -> str:
    return f"{streams} streams" if streams > 1 else "one stream"


def _pushed(sites: Directory, streams: int) -> Callable[[], object]:
    return lambda: deferred.push(sites["jfk"], group_max_calls=1, parallelism=streams)
