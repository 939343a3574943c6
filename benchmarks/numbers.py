"""What leasing numbers takes from a master that draws them for its own rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy import text

from benchmarks.pairs import Result, compared
from benchmarks.setting import directory
from masters.numbers import ledger
from sites import Site
from sites.names import QualifiedName
from sites.sessions import identity

#: Sessions that draw, seconds of a round, and rounds of each kind.
SESSIONS, SECONDS, ROUNDS = 2, 4.0, 5

_DRAW = text(
    "SELECT count(nextval('public.orders_id_seq')) FROM generate_series(1, 100)"
)


def run(numbers: int) -> list[Result]:
    """The master's own draws, with one lease a second against none at all."""
    with directory("hq", "jfk") as sites:
        hq = sites["hq"]
        with hq.begin() as connection:
            connection.execute(text("CREATE TABLE public.orders (id bigserial)"))
        with sites["jfk"].transaction() as connection:
            holder = identity.read(connection)

        def lease() -> None:
            with hq.transaction() as connection:
                table = QualifiedName("public", "orders")
                ledger.grant(connection, holder, table, "id", numbers)

        found: dict[bool, list[float]] = {True: [], False: []}
        _drawn(hq, None)
        for _ in range(ROUNDS):
            for leasing in (False, True):
                found[leasing].append(_drawn(hq, lease if leasing else None))
    return [
        compared(
            "numbers: seconds for a million draws of the master's own",
            f"a lease of {numbers:,} each second",
            "no lease",
            [1e6 / rate for rate in found[True]],
            [1e6 / rate for rate in found[False]],
            bar=1 / 0.98,
        ),
    ]


def _drawn(site: Site, lease: Callable[[], None] | None) -> float:
    """How many numbers a second sessions draw, while there is a lease each second."""
    counts = [0] * SESSIONS
    until = time.perf_counter() + SECONDS

    def draw(place: int) -> None:
        with site.session() as connection:
            while time.perf_counter() < until:
                with connection.begin():
                    connection.execute(_DRAW)
                counts[place] += 100

    threads = [threading.Thread(target=draw, args=(n,)) for n in range(SESSIONS)]
    for thread in threads:
        thread.start()
    while lease is not None and time.perf_counter() < until - 0.5:
        lease()
        time.sleep(1)
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS
