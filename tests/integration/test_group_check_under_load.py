"""Checks of a group while users write at all masters, and pushes go on between them.

`SNAPTIDE_GROUP_CHECKS` says how many checks are made.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress

import pytest

import deferred
import groups
from deferred.pushing.push import destinations
from groups import CheckReason
from sites import Directory, Site
from sites.errors import SnaptideError
from tests.grouped import GROUP, found_group, push_all
from tests.integration.test_check_under_load import PUSHES, WRITES, busy, writer
from tests.linked_table import run
from tests.seeds import seed
from tests.stories import user

pytestmark = pytest.mark.usefixtures("spark")

CHECKS = int(os.environ.get("SNAPTIDE_GROUP_CHECKS", "15"))

#: What users of each master do: mostly to rows of their own, but they meet at some.
STATEMENTS = (
    "UPDATE {t} SET qty = {n}, name = '{at} {n}' || id WHERE id = {k} + {own}",
    "UPDATE {t} SET id = {n} + {own} WHERE id = {m} + {own}",
    "DELETE FROM {t} WHERE id = {n} + {own}",
    "INSERT INTO {t} (id, qty) VALUES ({n} + {own}, {m}) ON CONFLICT DO NOTHING",
    "UPDATE {t} SET price = {m} WHERE id BETWEEN {n} + {own} AND {n} + {own} + 20",
    "UPDATE {t} SET price = {m} WHERE id = {k}",
)

PATHS: dict[str, Mapping[str, str] | None] = {
    "full mesh": None,
    "chain": {"lax": "hq", "bos": "lax"},
}


def push_from(site: Site) -> Callable[[], None]:
    def push() -> None:
        for to in destinations(site):
            with suppress(SnaptideError):
                deferred.push(site, to)

    return push


@pytest.mark.parametrize("paths", PATHS)
def test_no_difference_looks_unexplained(
    make_sites: Callable[..., Directory], paths: str
) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, *sites, via=PATHS[paths])
    run(
        sites["hq"],
        "INSERT INTO orders (id, qty) SELECT n, 0 FROM generate_series(1, 1400) n",
    )
    push_all(sites)
    drawn = random.Random(seed("SNAPTIDE_CHECK_SEED"))
    seen: Counter[str] = Counter()
    with ExitStack() as stack:
        works = []
        for number, (name, site) in enumerate(sites.items(), 1):
            statements = tuple(
                one.replace("{own}", str(number * 300))
                .replace("{at}", name)
                .replace("{t}", "public.orders")
                for one in STATEMENTS
            )
            session = stack.enter_context(user(site))
            works += [
                (writer(session, statements, random.Random(drawn.random())), WRITES),
                (push_from(site), PUSHES),
            ]
        pace = stack.enter_context(busy(*works))
        for number in range(CHECKS):
            pace.step()
            report = groups.check(sites[drawn.choice([*sites])], GROUP)
            assert not report.unexplained, (number, report)
            for count in report.tables[0].counts:
                seen[count.reason.value] += count.rows
    assert seen["in flight"], seen
    assert set(seen) <= {"in flight", "parked"}, seen
    push_all(sites)
    report = groups.check(sites["bos"], GROUP)
    reasons = {one.reason for one in report.tables[0].counts}
    assert reasons <= {CheckReason.PARKED}, report
