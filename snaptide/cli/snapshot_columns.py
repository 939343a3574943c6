"""Options of `snaptide snapshot alter` that change which columns a snapshot has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

import snapshots
from sites import names
from sites.sessions.site import Site
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.cli.progress import bar
from snaptide.errors import BadArgument

Add = Annotated[
    list[str] | None,
    typer.Option(
        "--add-column", metavar="COLUMN", help="A column of the master; repeatable."
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop-column",
        metavar="COLUMN",
        help="A column that the snapshot is to lose; repeatable.",
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OLD=NEW",
        help="A column that the master has renamed; repeatable, also to exchange "
        "names.",
    ),
]
Widen = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column that gets the wider type of the master; repeatable.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="All columns that it is to have, separated by commas, instead of "
        "--add-column and --drop-column."
    ),
]


def alter(
    program: Program,
    site: Site,
    name: str,
    condition: snapshots.Condition | None,
    *,
    add: Sequence[str] | None,
    drop: Sequence[str] | None,
    rename: Sequence[str] | None,
    widen: Sequence[str] | None,
    columns: str | None,
) -> None:
    """Alter the columns of a snapshot as options say, and show those it has now."""
    with bar(program, f"fill {site.name} {name}") as progress:
        report = snapshots.alter_columns(
            site,
            name,
            add=[*map(names.plain, add or ())],
            drop=[*map(names.plain, drop or ())],
            rename=renamed(rename or ()),
            widen=[*map(names.plain, widen or ())],
            columns=split(columns),
            condition=condition,
            progress=progress,
        )
    show(program, report)


def split(columns: str | None) -> list[str] | None:
    """The names in a list with commas; None if there is none."""
    if columns is None:
        return None
    return [names.plain(one) for one in names.divided(columns, ",")]


def renamed(options: Sequence[str]) -> dict[str, str]:
    """The new names of columns by the old ones.

    Raises:
        BadArgument: an option is not OLD=NEW, or an old name is there twice.
    """
    found: dict[str, str] = {}
    for one in options:
        parts = names.divided(one, "=")
        if len(parts) != 2 or parts[0] in found:
            raise BadArgument(f"--rename {one}: write OLD=NEW, and each OLD once.")
        found[names.plain(parts[0])] = names.plain(parts[1])
    return found
