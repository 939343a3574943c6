"""Checks while users write at both sides, and pushes and refreshes go on.

`SNAPTIDE_CHECKS` says how many checks are made.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

import deferred
import snapshots
from sites import Directory
from sites.errors import SnaptideError
from snapshots import CheckReport
from tests.fix_worlds import prepared_once
from tests.integration.test_followed_parents import make_shop
from tests.oracle.checks import crowd
from tests.seeds import seed
from tests.stories import settle, user

pytestmark = pytest.mark.usefixtures("spark")

CHECKS = int(os.environ.get("SNAPTIDE_CHECKS", "20"))

#: Seconds between two transactions of a user, and between two pushes. For each step of
#: a test, a user makes eight of them, and one push is made, at most.
WRITES, PUSHES, STEP = 0.05, 0.4, 0.4

#: What one user does at random: on few rows, so that users meet and conflict.
AT_MASTER = (
    "UPDATE public.customer SET store_id = {n} % 3 WHERE id = {k}",
    "UPDATE public.customer SET name = 'hq {n}' WHERE id = {k}",
    "UPDATE public.rental SET customer_id = 1 + {n} % 9 WHERE id = {m}",
    "UPDATE public.payment SET amount = {n} WHERE id = {n}",
    "DELETE FROM public.payment WHERE id = {n}",
    "INSERT INTO public.payment VALUES ({n}, {m}, 1.50) ON CONFLICT DO NOTHING",
)
AT_SITE = (
    "UPDATE public.customer SET name = 'jfk {n}' WHERE id = {k}",
    "UPDATE public.rental SET kind = 'jfk {n}' WHERE id = {m}",
    "UPDATE public.payment SET amount = -{n} WHERE id = {n}",
    "DELETE FROM public.payment WHERE id = {n}",
    "INSERT INTO public.payment VALUES ({n}, {m}, 2.00)",
)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_shop(sites)


@contextmanager
def busy(
    *works: tuple[Callable[[], None], float], step: float = STEP
) -> Iterator[crowd.Pace]:
    """Repeat each of these in a thread of its own while the block runs."""
    failed: list[str] = []
    with crowd.busy(works, failed, step) as pace:
        yield pace
    assert not failed, failed


def writer(
    session: psycopg.Connection[Any], statements: tuple[str, ...], drawn: random.Random
) -> Callable[[], None]:
    def write() -> None:
        with suppress(psycopg.Error):
            for _ in range(drawn.randint(1, 3)):
                values = {
                    "n": drawn.randint(1, 150),
                    "m": drawn.randint(1, 36),
                    "k": drawn.randint(1, 9),
                }
                session.execute(drawn.choice(statements).format(**values))
            session.commit()
            return
        session.rollback()

    return write


def test_no_difference_looks_unexplained(hq, jfk):
    drawn = random.Random(seed("SNAPTIDE_CHECK_SEED"))

    def push_and_refresh() -> None:
        with suppress(SnaptideError):
            deferred.push(jfk, "hq")
            snapshots.refresh(
                jfk, "shop", push_deferred_rpc=False, allow_mass_delete=True
            )

    seen: Counter[str] = Counter()
    with (
        user(hq) as one,
        user(jfk) as another,
        busy(
            (writer(one, AT_MASTER, random.Random(drawn.random())), WRITES),
            (writer(another, AT_SITE, random.Random(drawn.random())), WRITES),
            (push_and_refresh, PUSHES),
        ) as pace,
    ):
        for _ in range(CHECKS):
            pace.step()
            report = snapshots.check(jfk, "shop")
            assert not report.unexplained, report
            seen += _counts(report)
    assert set(seen) >= {"in flight", "pending"}, seen
    settle(jfk)
    assert snapshots.check(jfk, "shop").equal


def _counts(report: CheckReport) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in report.snapshots:
        for count in one.counts:
            counts[count.reason.value] += count.rows
    return counts
