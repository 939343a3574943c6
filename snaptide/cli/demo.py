"""`snaptide demo`: the whole of it, told as a story."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running for you to try.")
    ] = False,
) -> None:
    """Run the main job on embedded servers, with real flights.

    Example: snaptide demo --keep
    """
    # Imported late: it brings servers and data that no other command needs.
    from snaptide.demo import run

    raise typer.Exit(run(keep=keep))
