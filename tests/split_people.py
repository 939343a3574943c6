"""A table of people whose column is split, for tests of lenses."""

from __future__ import annotations

from typing import Any

import snapshots
from sites import Site
from tests.fix_sites import log
from tests.linked_table import run

SPLIT: dict[str, Any] = {
    "gone": ["full_name"],
    "sets": {
        "first": "split_part(full_name, ' ', 1)",
        "last": "substr(full_name, strpos(full_name, ' ') + 1)",
    },
    "backs": {"full_name": "first || ' ' || last"},
}
DROP = "ALTER TABLE public.people DROP full_name"


def found(hq: Site, jfk: Site) -> None:
    """A snapshot of before the split."""
    run(
        hq,
        "CREATE TABLE public.people (id int PRIMARY KEY, full_name varchar(30),"
        " town text, desk numeric(4,1))",
        "INSERT INTO public.people SELECT n, 'Ada ' || n, 'JFK', n"
        " FROM generate_series(1, 4) n",
    )
    log(hq, "people")
    snapshots.create(jfk, "people", master="hq", updatable=True)
    snapshots.refresh(jfk, "people")
    run(
        hq,
        "ALTER TABLE public.people ADD first text, ADD last text",
        "UPDATE public.people SET first = split_part(full_name, ' ', 1),"
        " last = split_part(full_name, ' ', 2)",
    )


def people(hq: Site) -> list[tuple[Any, ...]]:
    return run(hq, "SELECT id, first, last, town FROM public.people ORDER BY id")
