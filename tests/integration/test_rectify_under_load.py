"""Rectify while users write at both sides, and pushes and refreshes go on.

`SNAPTIDE_RECTIFIED` says how often rows are corrupted and mended.
"""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import deferred
import snapshots
from sites import Directory, Site
from sites.errors import SnaptideError
from tests.fix_worlds import prepared_once
from tests.integration.test_check_under_load import (
    AT_MASTER,
    AT_SITE,
    WRITES,
    busy,
    writer,
)
from tests.integration.test_followed_parents import make_shop
from tests.linked_table import as_refresh, run, scalar
from tests.seeds import seed
from tests.stories import refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

ROUNDS = int(os.environ.get("SNAPTIDE_RECTIFIED", "4"))

#: Seconds between the pushes of a schedule: rectify needs its turn, too. And what
#: others do in so many seconds is what they do in a round, at most.
PUSHES, ROUND = 1, 3

#: Rows that nothing touches but the corruption, and one counter of each user.
OURS = "SELECT id, amount FROM public.payment WHERE id BETWEEN 200 AND 299 ORDER BY id"
COUNTER = {"hq": 301, "jfk": 302}


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_shop(sites)
    run(
        sites["hq"],
        "INSERT INTO public.customer VALUES (100, 1, 'c')",
        "INSERT INTO public.rental VALUES (100, 100, 'k')",
        "INSERT INTO public.payment SELECT g, 100, 0 FROM generate_series(200, 260) g",
        "INSERT INTO public.payment VALUES (301, 100, 0), (302, 100, 0)",
    )
    refresh(sites["jfk"], "shop")


def counter(session: psycopg.Connection[Any], name: str, last: dict[str, int]) -> Any:
    def count() -> None:
        session.execute(
            "UPDATE public.payment SET amount = %s WHERE id = %s",
            (last.get(name, 0) + 1, COUNTER[name]),
        )
        session.commit()
        last[name] = last.get(name, 0) + 1

    return count


def corrupt(jfk: Site, drawn: random.Random) -> None:
    base = 'public."snap$_payment"'
    some = [", ".join(map(str, drawn.sample(range(200, 261), 5))) for _ in range(2)]
    as_refresh(
        jfk,
        f"UPDATE {base} SET amount = amount + 7 WHERE id IN ({some[0]})",
        f"DELETE FROM {base} WHERE id IN ({some[1]})",
        f"INSERT INTO {base} VALUES ({drawn.randint(261, 299)}, 100, 1)"
        " ON CONFLICT DO NOTHING",
    )


def test_nothing_is_lost(hq, jfk):
    drawn = random.Random(seed("SNAPTIDE_RECTIFY_SEED"))
    last: dict[str, int] = {}

    def push_and_refresh() -> None:
        with suppress(SnaptideError):
            deferred.push(jfk, "hq")
            snapshots.refresh(
                jfk, "shop", push_deferred_rpc=False, allow_mass_delete=True
            )

    with user(hq) as a, user(jfk) as b, user(hq) as c, user(jfk) as d:
        works: list[tuple[Callable[[], None], float]] = [
            (writer(a, AT_MASTER, random.Random(drawn.random())), WRITES),
            (writer(b, AT_SITE, random.Random(drawn.random())), WRITES),
            (counter(c, "hq", last), WRITES),
            (counter(d, "jfk", last), WRITES),
            (push_and_refresh, PUSHES),
        ]
        with busy(*works, step=ROUND) as pace:
            for number in range(ROUNDS):
                pace.step()
                reference = ("master", "site")[number % 2]
                corrupt(jfk, drawn)
                right = run(hq if reference == "master" else jfk, OURS)
                report = snapshots.rectify(
                    jfk, "shop", reference=reference, allow_mass_delete=True
                )
                assert report.to_mend
                still = [(one.name, one.still) for one in report.snapshots]
                assert report.mended == report.to_mend, (reference, still)
                assert run(hq, OURS) == run(jfk, OURS) == right
    settle(jfk)
    assert snapshots.check(jfk, "shop").equal
    for name, row in COUNTER.items():
        for site in (hq, jfk):
            amount = f"SELECT amount FROM public.payment WHERE id = {row}"
            assert scalar(site, amount) == last[name]
