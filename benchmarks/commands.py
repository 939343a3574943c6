"""What a command costs before its work: the processor's time of a whole process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import setting
from benchmarks.pairs import Result, compared
from sites import Site

#: No command that asks a database can do without these.
LIBRARIES = "import psycopg, rich.table, sqlalchemy.dialects.postgresql.psycopg, typer"

_STATUS = ["-m", "snaptide", "status"]
_HELP = ["-m", "snaptide", "--help"]


def run(rounds: int) -> list[Result]:
    """Compare commands with Pythons that import the libraries they need."""
    with setting.directory("jfk") as sites, tempfile.TemporaryDirectory() as folder:
        os.environ["SNAPTIDE_CONFIG"] = str(_settings(sites["jfk"], Path(folder)))
        return [
            _against("snaptide status", _STATUS, LIBRARIES, rounds, bar=1.8),
            _against("snaptide --help", _HELP, "import typer", rounds, bar=3.5),
        ]


def _settings(site: Site, folder: Path) -> Path:
    url = site.url.set(drivername="postgresql").render_as_string(hide_password=False)
    file = folder / "snaptide.toml"
    file.write_text(f'[sites.{site.name}]\nurl = "{url}"\n')
    return file


def _against(
    name: str, command: Sequence[str], libraries: str, rounds: int, *, bar: float
) -> Result:
    pairs = [
        (_processor(command), _processor(["-c", libraries])) for _ in range(rounds)
    ]
    values, others = zip(*pairs, strict=True)
    return compared(
        name, f"python {' '.join(command)}", libraries, values, others, bar=bar
    )


def _processor(arguments: Sequence[str]) -> float:
    """The seconds of processor that a Python takes."""
    before = _of_children()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
