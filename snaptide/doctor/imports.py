"""Finds folders in whose presence programs do not find Snaptide's packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from snaptide.doctor.finding import Finding, error
from snaptide_imports import hidden, what_to_do


def check() -> Iterator[Finding]:
    """Findings about programs that are started in this folder."""
    for package, found in hidden([str(Path.cwd()), *sys.path]):
        yield error(
            "here",
            f"package {package}",
            f"A program that is started here imports {found} instead.",
            what_to_do(package),
        )
