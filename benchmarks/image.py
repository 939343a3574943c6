"""An image of a table made and loaded, against COPY to a file and from one."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import text

import masters
import snapshots
from benchmarks import load
from benchmarks.pairs import Result, Side, compared, seconds
from benchmarks.setting import COLUMNS, NAMES, create_orders, directory, tidy
from sites import Directory
from sites.transfer import transport

ROUNDS = 3

_PIECE = 2**20


def run(rows: int) -> list[Result]:
    """Each round makes an image and loads a snapshot that is new from it."""
    with (
        directory("hq", "jfk") as sites,
        tempfile.TemporaryDirectory(prefix="snaptide-bench-") as folder,
    ):
        with sites["hq"].begin() as connection:
            create_orders(connection, rows)
        masters.create_snapshot_log(sites["hq"], "orders")
        tidy(sites["hq"], "public.orders")
        made, loaded, out, back = seconds(_sides(sites, Path(folder)), ROUNDS)
        packed = _bytes(Path(folder) / "image")
        plain = (Path(folder) / "by-hand").stat().st_size
    of = f"{rows:,} rows"
    return [
        compared(f"image of {of} made", "image make", "COPY out", made, out, bar=1.1),
        compared(
            f"image of {of} loaded", "snapshot load", "COPY in", loaded, back, bar=1.1
        ),
        compared(
            f"image of {of}: its size",
            "image",
            "text of COPY",
            [packed / 2**20],
            [plain / 2**20],
            unit="MiB",
        ),
    ]


def _sides(sites: Directory, folder: Path) -> list[Side]:
    image, by_hand = folder / "image", folder / "by-hand"
    return [
        Side(
            label="image make",
            run=lambda: snapshots.make_image(sites["hq"], image, ["orders"]),
            before=lambda: _forget(sites, image),
        ),
        Side(
            label="snapshot load",
            run=lambda: snapshots.load_image(sites["jfk"], "anew", image),
            before=lambda: load.anew(sites),
        ),
        Side(label="COPY out", run=lambda: _copy_out(sites, by_hand)),
        Side(
            label="COPY in",
            run=lambda: _copy_in(sites, by_hand),
            before=lambda: load.empty(sites),
        ),
    ]


def _forget(sites: Directory, image: Path) -> None:
    for one in masters.list_images(sites["hq"]):
        masters.drop_image(sites["hq"], one.name)
    shutil.rmtree(image, ignore_errors=True)


def _copy_out(sites: Directory, file: Path) -> None:
    with sites["hq"].transaction() as master, file.open("wb") as written:
        transport.copy_out(master, "SELECT * FROM public.orders", written.write)
        os.fsync(written.fileno())


def _copy_in(sites: Directory, file: Path) -> None:
    bare = sa.table("bare", *map(sa.column, NAMES), schema="public")
    with sites["jfk"].transaction() as site, file.open("rb") as rows:
        columns = COLUMNS.replace(" PRIMARY KEY", "")
        site.execute(text(f"CREATE TABLE public.bare ({columns})"))
        pieces = iter(partial(rows.read, _PIECE), b"")
        transport.copy_pieces(site, bare, NAMES, pieces)
        site.execute(text("ALTER TABLE public.bare ADD PRIMARY KEY (id)"))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
