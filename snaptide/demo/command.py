"""The command `snaptide demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import snaptide.demo


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running for you to try.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Where servers and logs live; else ./.demo."
        ),
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop one that was left running.")
    ] = False,
) -> None:
    """Run the main job on embedded servers, with real flights.

    Example: snaptide demo --keep
    """
    if stop:
        found = snaptide.demo.stop(folder=folder)
        typer.echo("The demo is stopped." if found else "There is no demo here.")
        return
    raise typer.Exit(snaptide.demo.run(keep=keep, folder=folder))
