"""`snaptide spark`: what the executors of a cluster need."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.cli.progress import bar
from snaptide.cli.verbs import Verbs
from snaptide.cli.written import refuse_unwritable
from snaptide.units import size

app = Verbs()


@app.command()
def archive(
    program: Program,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", dir_okay=False, help="The archive, a .tar.gz."),
    ],
) -> None:
    """Write what executors need to run Snaptide's tasks into one file.

    Spark carries it to the executors of a cluster, so nothing has to be installed there
    but Spark and the same version of Python. Write it again with each version of
    Snaptide. Prints the lines for snaptide.toml.

    Example: snaptide spark archive /srv/snaptide/executors.tar.gz
    """
    # PySpark takes a second to import, which other commands need not wait for.
    from snapshots.spark import archive as archives

    refuse_unwritable(file)
    with bar(program, f"write {file.name}") as progress:
        made = archives.write(file, progress=progress)
    lines = "\n".join(f'"{name}" = "{value}"' for name, value in made.conf.items())
    show(
        program,
        made,
        lambda: Text(
            f"Wrote {made.files:,} files, {size(made.bytes)}, for Python"
            f" {platform.python_version()} on {platform.system()} {platform.machine()}."
            f" Put into snaptide.toml:\n\n[spark.conf]\n{lines}"
        ),
    )
