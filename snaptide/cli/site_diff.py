"""`snaptide site diff`: what master tables have otherwise than their snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

import snapshots
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.cli.site import app


@app.command()
def diff(
    program: Program,
    site: SiteArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[SNAPSHOT]", help="Only of this snapshot.")
    ] = None,
) -> None:
    """Show what master tables have otherwise than their snapshots, and what settles it.

    Columns that came, went or got other names, their types and defaults, NOT NULL,
    unique keys and indexes; `snaptide check` compares rows.

    Example: snaptide site diff jfk
    """
    found = snapshots.list_shape_differences(site, name)
    show(program, found, lambda: _lines(found))


def _lines(found: Sequence[snapshots.ShapeDifference]) -> RenderableType:
    lines = []
    for one in found:
        lines.append(Text(f"{one.snapshot}: {one.what} {one.differs}"))
        lines.append(Text(f"{'':4}-> {one.todo}", style="dim"))
    return Group(*(lines or [Text("Nothing is different.")]))
