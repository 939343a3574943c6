"""Writes the files that commands make of their reports: pages and plans."""

from __future__ import annotations

import os
from pathlib import Path

from snaptide.errors import BadArgument


def refuse_unwritable(path: Path) -> None:
    """Make sure that a file can be written before the work for it begins.

    Raises:
        BadArgument: it cannot.
    """
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadArgument(f"{path} cannot be written.")


def write(path: Path, text: str) -> None:
    """Write a file; whoever reads it finds the old or the new one.

    Raises:
        OSError: it cannot be written; there is no half a file.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, "utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
