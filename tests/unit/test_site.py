"""The documentation as readers see it: built, and looked at."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, as `make docs` builds them."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    built = subprocess.run(
        [*command, "--site-dir", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_what_writes_the_pages_is_not_published(site: Path) -> None:
    published = {path.suffix for path in site.rglob("*") if path.is_file()}
    assert ".py" not in published
    assert not (site / "generator").exists()


def test_the_menu_calls_pages_by_their_headings(site: Path) -> None:
    page = (site / "index.html").read_text("utf-8")
    menu = {
        address: title.strip()
        for address, title in re.findall(
            r'<a href="([^"]+)" class="md-nav__link">\s*<span class="md-ellipsis">'
            r"\s*([^<]+?)\s*<",
            page,
        )
    }
    assert menu["reference/cli/"] == "Command line"
    assert menu["reference/api/"] == "Python API"
    for address, title in menu.items():
        if address.endswith("/"):
            shown = (site / address / "index.html").read_text("utf-8")
            heading = re.search(r"<h1[^>]*>(.*?)<", shown, re.S)
            assert heading, address
            assert heading[1].strip() == title


def test_bars_in_tables_are_bars(site: Path) -> None:
    for path in sorted(site.glob("reference/*/index.html")):
        page = path.read_text("utf-8")
        assert r"\|" not in page, path
        assert "&amp;#124;" not in page, path
    cli = (site / "reference" / "cli" / "index.html").read_text("utf-8")
    assert "<code>debug|info|warning|error</code>" in cli.replace("&#124;", "|")
