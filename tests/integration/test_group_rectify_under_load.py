"""Rectify of a group while users write at all masters, and pushes go on between them.

`SNAPTIDE_GROUP_RECTIFIED` says how often rows are corrupted and mended.
"""

import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from sqlalchemy import select, text

import groups
from sites import Directory, Site
from sites.writing.triggered import brought
from tests.grouped import GROUP, found_group, group_id, push_all
from tests.integration.test_check_under_load import PUSHES, WRITES, busy, writer
from tests.integration.test_group_check_under_load import PATHS, STATEMENTS, push_from
from tests.linked_table import announced, run, scalar
from tests.seeds import seed
from tests.stories import user

pytestmark = pytest.mark.usefixtures("spark")

ROUNDS = int(os.environ.get("SNAPTIDE_GROUP_RECTIFIED", "3"))

#: Users of different masters do not meet: what they park would hold up the pushes.
OWN = STATEMENTS[:-1]

#: What others do in so many seconds is what they do in a round, at most.
ROUND = 1

#: Rows that nothing touches but the corruption, and one counter of each user.
OURS = "SELECT id, qty FROM orders WHERE id BETWEEN 2000 AND 2099 ORDER BY id"
COUNTERS = {"hq": 3001, "lax": 3002, "bos": 3003}


def counter(session: psycopg.Connection[Any], row: int, last: dict[int, int]) -> Any:
    def count() -> None:
        session.execute(
            "UPDATE public.orders SET qty = %s WHERE id = %s",
            (last.get(row, 0) + 1, row),
        )
        session.commit()
        last[row] = last.get(row, 0) + 1

    return count


def corrupt(site: Site, drawn: random.Random) -> int:
    """Change, delete and insert rows unseen; says how many."""
    some = drawn.sample(range(2000, 2060), 10)
    changed, deleted = (", ".join(map(str, part)) for part in (some[:5], some[5:]))
    statements = announced(
        f"UPDATE public.orders SET qty = qty + 7 WHERE id IN ({changed})",
        f"DELETE FROM public.orders WHERE id IN ({deleted})",
        f"INSERT INTO public.orders (id, qty) VALUES ({drawn.randint(2060, 2099)}, 1)",
    )
    # As if a master had sent them whose changes go nowhere from here.
    facts = {"sources": {str(group_id(site)): "nowhere"}}
    with site.transaction() as connection:
        connection.execute(select(*brought("nowhere", facts)))
        for one in statements:
            connection.execute(text(one))
    return 11


@pytest.mark.parametrize("paths", PATHS)
def test_nothing_is_lost(make_sites: Callable[..., Directory], paths: str) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, *sites, via=PATHS[paths])
    run(
        sites["hq"],
        "INSERT INTO orders (id, qty) SELECT n, 0 FROM generate_series(1, 1400) n",
        "INSERT INTO orders (id, qty) SELECT n, n FROM generate_series(2000, 2059) n",
        "INSERT INTO orders (id, qty) VALUES (3001, 0), (3002, 0), (3003, 0)",
    )
    push_all(sites)
    drawn = random.Random(seed("SNAPTIDE_RECTIFY_SEED"))
    last: dict[int, int] = {}
    right = run(sites["hq"], OURS)
    with ExitStack() as stack:
        works = []
        for number, (name, site) in enumerate(sites.items(), 1):
            statements = tuple(
                one.replace("{own}", str(number * 300))
                .replace("{at}", name)
                .replace("{t}", "public.orders")
                for one in OWN
            )
            sessions = [stack.enter_context(user(site)) for _ in range(2)]
            works += [
                (
                    writer(sessions[0], statements, random.Random(drawn.random())),
                    WRITES,
                ),
                (counter(sessions[1], COUNTERS[name], last), WRITES),
                (push_from(site), PUSHES),
            ]
        pace = stack.enter_context(busy(*works, step=ROUND))
        for number in range(ROUNDS):
            pace.step()
            reference, spoiled, _ = drawn.sample([*sites], 3)
            planted = corrupt(sites[spoiled], drawn)
            report = groups.rectify(
                sites[drawn.choice([*sites])], GROUP, reference=reference
            )
            still = [(one.target, one.still) for one in report.tables]
            assert report.to_mend == report.mended == planted, (number, still)
            for site in sites.values():
                assert run(site, OURS) == right
    push_all(sites)
    checked = groups.check(sites["bos"], GROUP)
    assert checked.equal, checked
    for row, count in last.items():
        for site in sites.values():
            qty = f"SELECT qty FROM orders WHERE id = {row}"
            assert scalar(site, qty) == count
