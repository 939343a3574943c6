"""What tests of images share: a master with two tables, and a site without rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run

#: Small enough that each table has several slices.
SLICE = 64 * 1024


@prepared_once("hq", "jfk")
def master(sites: Directory) -> None:
    """Two tables at hq, one below the other; nothing at jfk."""
    run(
        sites["hq"],
        "CREATE TABLE public.p (id int PRIMARY KEY, v text NOT NULL, u int UNIQUE,"
        " twice int GENERATED ALWAYS AS (u * 2) STORED)",
        "CREATE INDEX ON public.p (v)",
        "CREATE TABLE public.c (id int PRIMARY KEY, p int NOT NULL REFERENCES public.p,"
        " words text)",
        "INSERT INTO public.p (id, v, u) SELECT i, chr(65 + i % 3), i"
        " FROM generate_series(1, 6000) i",
        r"INSERT INTO public.c SELECT i, i, E'a\tb\\c\nd'"
        " FROM generate_series(1, 6000) i",
        "INSERT INTO public.c VALUES (0, 1, NULL)",
    )
    log(sites["hq"], "p", "c")


def make(hq: Site, folder: Path, *tables: str, **options: Any) -> snapshots.ImageReport:
    """Make an image of these tables, of both if none is named."""
    options.setdefault("slice_bytes", SLICE)
    return snapshots.make_image(hq, folder, tables or ("p", "c"), **options)


def create(jfk: Site, **options: Any) -> None:
    """Create a snapshot of each table, in one group."""
    for name in ("p", "c"):
        snapshots.create(jfk, name, master="hq", group="g", updatable=True, **options)


def away(jfk: Site) -> Directory:
    """The site, and a master that does not answer."""
    return Directory({"hq": "postgresql://nobody@127.0.0.1:1/hq", "jfk": jfk.url})
