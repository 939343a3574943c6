"""A folder at headquarters, with snapshots of it at branches, each with a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import folders
import snapshots
from folders import SyncReport
from sites import Site
from tests.linked_table import run, scalar
from tests.stories import refresh


def publish(hq: Site, *branches: Site, where: str | None = None) -> None:
    """Make a folder, and updatable snapshots of it."""
    folders.create(hq, "docs")
    for site in branches:
        take(site, where)


def take(site: Site, where: str | None = None) -> None:
    """Give a site snapshots of the folder's tables."""
    options: Any = {"master": "hq", "group": "docs", "updatable": True}
    snapshots.create(site, "docs_entry", where=where, **options)
    snapshots.create(site, "docs_chunk", follow=["docs_entry"], **options)
    refresh(site, "docs")


def settle(*sites: Site) -> None:
    """Push and refresh until all have the same."""
    for _ in range(2):
        for site in sites:
            snapshots.refresh(site, "docs", allow_mass_delete=True)


def step(site: Site, directory: Path, **options: Any) -> SyncReport:
    """Sync, and expect that nothing is left alone."""
    directory.mkdir(exist_ok=True)
    report = folders.sync(site, "docs", directory, **options)
    assert report.left == {}
    return report


def left(site: Site, directory: Path) -> dict[str, str]:
    """Sync, and return what is left alone, with the reasons."""
    return folders.sync(site, "docs", directory).left


def content(directory: Path) -> dict[str, str]:
    """The files of a directory, and its empty folders, with what is in them."""
    return {
        str(one.relative_to(directory)): one.read_text() if one.is_file() else "/"
        for one in sorted(directory.rglob("*"))
        if not one.name.startswith(".snaptide-")
        and (one.is_file() or not any(one.iterdir()))
    }


def paths(site: Site) -> list[str]:
    """The paths that a folder has at a site."""
    return [one.path for one in folders.list_files(site, "docs")]


def chunks(site: Site) -> int:
    """How many pieces of content a site has."""
    return int(scalar(site, "SELECT count(*) FROM docs_chunk"))


def captured(site: Site) -> list[tuple[Any, ...]]:
    """The queued calls: table and operation."""
    return run(
        site,
        "SELECT tablename, operation, count(*) FROM snaptide.defcall"
        " GROUP BY 1, 2 ORDER BY 1, 2",
    )
