"""A directory that is in step with a folder of headquarters."""

from __future__ import annotations

from pathlib import Path

import pytest

import folders
from sites import Site
from tests.foldered import step


@pytest.fixture
def docs(hq: Site, tmp_path: Path) -> Path:
    """A directory in step with a folder."""
    folders.create(hq, "docs")
    directory = tmp_path / "docs"
    (directory / "a").mkdir(parents=True)
    (directory / "a" / "x.txt").write_text("x")
    (directory / "y.txt").write_text("y")
    step(hq, directory)
    return directory
