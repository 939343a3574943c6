"""Random transactions with procedures leave both sites alike, however pushed."""

import os
import random
from typing import Any

from sqlalchemy import Connection

import deferred
from sites import Directory
from tests import seeds
from tests.linked_table import link, parked, queued, rows, run

#: What it makes of a row depends on all that came before it.
MIX = """
CREATE PROCEDURE public.mix(n int, word text) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.orders SET qty = (COALESCE(qty, 0) * 31 + n) % 10007;
    DELETE FROM public.orders WHERE qty % 5 = 0;
    INSERT INTO public.orders (id, qty) SELECT n, count(*) FROM public.orders
    ON CONFLICT (id) DO UPDATE SET name = word || excluded.id;
END $$
"""

OPTIONS: list[dict[str, Any]] = [
    {},
    {"group_max_calls": 0},
    {"batch_size": 7},
    {"parallelism": 3, "group_max_calls": 5},
    {"transaction_count": 3},
]

SEED = seeds.seed("SNAPTIDE_ORACLE_SEED")
TRANSACTIONS = int(os.environ.get("SNAPTIDE_PROCEDURE_TRANSACTIONS", "12"))


def test_random_transactions_with_procedures(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    for site in sites.values():
        run(site, MIX)
    deferred.allow_procedure(hq, "mix")
    chance = random.Random(SEED)
    for options in OPTIONS:
        for _ in range(TRANSACTIONS):
            with jfk.transaction() as connection:
                for _ in range(chance.randint(1, 4)):
                    step(connection, chance)
        while queued(jfk):
            assert deferred.push(jfk, **options).errors == 0, (SEED, options)
        assert rows(hq) == rows(jfk), (SEED, options)
        assert parked(hq) == [], (SEED, options)


def step(connection: Connection, chance: random.Random) -> None:
    number = chance.randint(1, 9)
    if chance.random() < 0.3:
        deferred.call(connection, "mix", [number, f"w{number}"], here=True)
    else:
        connection.exec_driver_sql(chance.choice(STATEMENTS), {"n": number})


MOVE = """
UPDATE public.orders SET id = 100, name = NULL
WHERE id = %(n)s AND 100 NOT IN (SELECT id FROM public.orders)
"""
STATEMENTS = [
    "INSERT INTO public.orders (id, qty) VALUES (%(n)s, 1) ON CONFLICT DO NOTHING",
    "UPDATE public.orders SET qty = qty + 1 WHERE id >= %(n)s",
    MOVE,
    "DELETE FROM public.orders WHERE id = %(n)s",
]
