"""`snaptide group paths`: shows, draws and chooses the paths of a group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path as File
from typing import Annotated

import typer
from rich.text import Text

import groups
from groups import Path, picture
from groups.define_paths import Shape
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.group import GroupName, app
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.errors import BadArgument

_MASTERS = "MASTER,MASTER,..."


def _in_a_folder(file: File | None) -> File | None:
    """Refuse a file in a missing folder before the command changes any path."""
    if file is not None and not file.parent.is_dir():
        raise typer.BadParameter(f"There is no folder {file.parent}.")
    return file


@app.command()
def paths(
    program: Program,
    site: SiteArgument,
    group: GroupName,
    mesh: Annotated[
        bool, typer.Option("--mesh", help="Each master sends to all others.")
    ] = False,
    star: Annotated[
        str | None,
        typer.Option(metavar="MASTER", help="All changes go through this master."),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(metavar=_MASTERS, help="Each master sends to its neighbours."),
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER-MASTER,...", help="Changes go both ways along these edges."
        ),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE:FROM:TO",
            help="One path; repeat it for every path, without the other options.",
        ),
    ] = None,
    svg: Annotated[
        File | None,
        typer.Option(
            dir_okay=False,
            callback=_in_a_folder,
            help="Write a picture to this file.",
        ),
    ] = None,
) -> None:
    """Show the paths of a group, or choose others at its master definition site.

    For each master, it shows the tree along which changes that began there go. You can
    choose other paths while no change of the group is on its way.

    Example: snaptide group paths hq flights --chain hq,lax,bos --svg flights.svg
    """
    shape = _shape(mesh=mesh, star=star, chain=chain, tree=tree, listed=path)
    if shape is not None:
        groups.set_paths(site, group, shape)
    report = groups.show_group(site, group)
    names = [one.master for one in report.masters]
    if svg is not None:
        svg.write_text(picture.svg(group, names, report.paths), "utf-8")
    drawn = picture.text(names, report.paths)
    show(program, report.paths, lambda: Text(drawn or "The group has only one master."))


def _shape(
    *,
    mesh: bool,
    star: str | None,
    chain: str | None,
    tree: str | None,
    listed: list[str] | None,
) -> Shape | None:
    wanted: list[Shape] = []
    if mesh:
        wanted.append(groups.full_mesh)
    if star is not None:
        wanted.append(partial(groups.star, hub=star))
    if chain is not None:
        order = chain.split(",")
        wanted.append(lambda masters: groups.tree(masters, list(pairwise(order))))
    if tree is not None:
        edges = tree.split(",")
        wanted.append(
            lambda masters: groups.tree(
                masters, [_pair(edge, masters) for edge in edges]
            )
        )
    if listed:
        given = [_path(one) for one in listed]
        wanted.append(lambda masters: given)
    if len(wanted) > 1:
        raise BadArgument("Use only one of --mesh, --star, --chain, --tree and --path.")
    return wanted[0] if wanted else None


def _pair(edge: str, masters: Sequence[str]) -> tuple[str, str]:
    """The two masters that an edge joins; their names may contain dashes, too."""
    parts = edge.split("-")
    pairs = [("-".join(parts[:n]), "-".join(parts[n:])) for n in range(1, len(parts))]
    known = [pair for pair in pairs if set(pair) <= set(masters)]
    if len(known) != 1:
        raise BadArgument(
            f"{edge!r} is not an edge between two of {', '.join(masters)}; write"
            " MASTER-MASTER, or give the paths with --path."
        )
    return known[0]


def _path(text: str) -> Path:
    parts = text.split(":")
    if len(parts) != 3:
        raise BadArgument(f"{text!r} is not a path; write SOURCE:FROM:TO.")
    source, local, target = parts
    return Path(source=source, local=local, target=target)
