"""The command `snaptide demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import snaptide.demo


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the servers running for you to try.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="The folder of servers and logs; default: ./.demo."
        ),
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop a demo that was kept running.")
    ] = False,
) -> None:
    """Run the whole story on embedded servers, with real flights.

    Example: snaptide demo --keep
    """
    if stop:
        found = snaptide.demo.stop(folder=folder)
        typer.echo("The demo is stopped." if found else "There is no demo here.")
        return
    raise typer.Exit(snaptide.demo.run(keep=keep, folder=folder))
