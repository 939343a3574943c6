"""`snaptide image`, and `snaptide snapshot load`, which fills snapshots from one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import masters
import snapshots
from snaptide.cli.arguments import (
    SiteArgument,
    TableColumns,
    Tables,
    by_table,
    columns_by_table,
    duration,
)
from snaptide.cli.output import show, show_facts, table
from snaptide.cli.program import Program
from snaptide.cli.progress import working
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument
from snaptide.limits import bytes_of

app = Verbs()

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", file_okay=False, help="Where the files go.")
]


@app.command()
def make(
    program: Program,
    site: SiteArgument,
    folder: Folder,
    tables: Tables,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE=CONDITION",
            help="Which rows of a table, by an immutable condition; repeatable.",
        ),
    ] = None,
    columns: TableColumns = None,
    slice_: Annotated[
        str,
        typer.Option("--slice", help="How much of a table is in a file, uncompressed."),
    ] = "256MB",
    expires: Annotated[
        str, typer.Option(help="How long the logs keep what has changed since.")
    ] = "14d",
    name: Annotated[
        str | None, typer.Option(help="Its name at the master; default: the folder's.")
    ] = None,
) -> None:
    """Write rows of one moment of a master to files that fill snapshots without it.

    Users go on writing meanwhile. Until the image expires or is dropped, the snapshot
    logs keep what has changed since. If it is broken off, run it again: it begins anew
    in the same folder.

    Example: snaptide image make hq /media/stick/airport flights seats

    Example: snaptide image make hq /tmp/jfk flights --where "flights=origin = 'JFK'"
    --expires 30d
    """
    chosen = columns_by_table(columns)
    with working(program, site, "image") as shown, shown(folder.name) as progress:
        report = snapshots.make_image(
            site,
            folder,
            tables,
            name=name,
            where=by_table("--where", where),
            columns=chosen,
            slice_bytes=_slice_bytes(slice_),
            expires=duration("--expires", expires, may_be_zero=False),
            progress=progress,
        )
    show(program, report)


@app.command("list")
def list_(program: Program, site: SiteArgument) -> None:
    """List the images that a master keeps its snapshot logs for.

    Example: snaptide image list hq
    """
    found = masters.list_images(site)
    rows = [
        (one.name, one.tables, one.began_at, one.made_at or "not yet", one.expires_at)
        for one in found
    ]
    columns = ["image", "tables", "begun", "complete", "expires"]
    show(program, found, lambda: table(columns, rows))


@app.command()
def drop(
    program: Program,
    site: SiteArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The image's name.")],
) -> None:
    """Let the snapshot logs of a master go on without an image; its files stay.

    A snapshot that was loaded from it, and not refreshed since, is compared in full by
    its next refresh.

    Example: snaptide image drop hq airport
    """
    masters.drop_image(site, name)
    show_facts(program, site=site.name, dropped=name)


def load(
    program: Program,
    site: SiteArgument,
    what: Annotated[
        str,
        typer.Argument(
            metavar="GROUP|SNAPSHOT", help="A refresh group, or a snapshot of it."
        ),
    ],
    folder: Annotated[
        Path,
        typer.Option("--image", metavar="DIR", help="The folder of the image."),
    ],
) -> None:
    """Fill the snapshots of a refresh group from an image; the master may be away.

    They were created, and never refreshed. The group then shows the moment of the
    image, and its first refresh brings what has changed since. If it is broken off, run
    it again: it goes on where it was.

    Example: snaptide snapshot load jfk airport --image /media/stick/airport
    """
    with working(program, site, "load") as shown, shown(what) as progress:
        report = snapshots.load_image(site, what, folder, progress=progress)
    show(program, report)


def _slice_bytes(given: str) -> int:
    size = bytes_of(given)
    if not size:
        raise BadArgument(f"--slice takes a size like 256MB, not {given!r}.")
    return size
