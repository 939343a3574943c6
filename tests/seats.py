"""A small snapshot for tests of workers and services."""

from __future__ import annotations

import masters
import snapshots
from sites import Directory
from tests.linked_table import run


def create_seats(sites: Directory) -> None:
    """An updatable snapshot `seats` of hq at jfk, with 20 rows that are loaded."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.seats (id int PRIMARY KEY, free int NOT NULL)",
        "INSERT INTO public.seats SELECT i, 100 FROM generate_series(1, 20) i",
    )
    masters.create_snapshot_log(hq, "seats")
    snapshots.create(jfk, "seats", master="hq", updatable=True)
    snapshots.refresh(jfk, "seats", push_deferred_rpc=False)
