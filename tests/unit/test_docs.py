"""The pages of the documentation, held against the code."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from docs import generate
from docs.generator import api, errors, examples, fault_points, settings
from sites.faults import InjectedFault, point

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def reference(name: str) -> str:
    return (DOCS / "reference" / name).read_text("utf-8")


def test_generated_pages_are_what_the_code_says():
    assert generate.outdated() == [], "run: make docs"


def test_pictures_are_small_and_shown():
    for picture in DOCS.rglob("*.png"):
        assert picture.stat().st_size < 100_000, picture
        pages = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
        assert f"pictures/{picture.name})" in pages, picture


def test_every_error_has_its_section():
    page = reference("errors.md")
    for error in errors.error_classes():
        assert f"### {error.code} {error.__name__} " in page


def test_every_error_says_what_to_do():
    without = [error.__name__ for error in errors.error_classes() if not error.hint]
    assert without in ([], ["SnaptideError"])


def test_no_two_errors_share_a_code():
    codes = Counter(error.code for error in errors.error_classes())
    assert [code for code, count in codes.items() if count > 1] == []


def test_every_public_name_is_in_the_reference():
    page = reference("api.md")
    for package, names in api.public_names().items():
        for name in names:
            assert f"### {package}.{name}\n" in page or f"[`{name}`](errors.md" in page


def test_every_public_function_is_used_in_an_example():
    """Classes are what functions take, return and raise: they are seen with these."""
    used = {name for page in examples.pages() for name in examples.uses(page)}
    assert sorted(set(api.public_functions()) - used) == []


def test_the_script_of_the_tutorial_is_its_only_example():
    """Another one would not be run."""
    assert len(examples.examples(examples.TUTORIAL)) == 1


def test_every_setting_is_explained():
    page = reference("settings.md")
    for name in settings.setting_names():
        row = re.search(rf"^\| `{name.partition('.')[2]}` \|.*\| (.*) \|$", page, re.M)
        assert row, name
        assert row[1].strip(), name


def test_fault_points_are_found(monkeypatch: pytest.MonkeyPatch):
    names = {name for name, _, _ in fault_points.calls()}
    assert "push.after_apply" in names
    monkeypatch.setenv("SNAPTIDE_FAULT", "docs.example:error")
    with pytest.raises(InjectedFault):
        point("docs.example")


def test_every_dictionary_view_is_explained_column_by_column():
    page = reference("views.md")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    scripts = (ROOT / "migrations" / "sql").glob("*views.sql")
    text = "\n".join(script.read_text("utf-8") for script in scripts)
    for statement in sqlglot.parse(text, read="postgres"):
        assert isinstance(statement, exp.Create)
        view = statement.this.name
        explained = re.findall(r"^\| `(\w+)` \|", sections[view], re.M)
        assert explained == statement.expression.named_selects, view


def test_commands_in_the_pages_exist():
    known = set(re.findall(r"^#+ snaptide (.+)$", reference("cli.md"), re.M))
    named = [
        (str(page.relative_to(DOCS)), line.split())
        for page in sorted(DOCS.rglob("*.md"))
        for line in re.findall(
            r"(?:^\$ |`)snaptide ((?:[a-z]+ ?)+)", page.read_text("utf-8"), re.M
        )
    ]
    assert named
    assert [
        (page, words)
        for page, words in named
        if not {words[0], " ".join(words[:2])} & known
    ] == []


@pytest.mark.parametrize(
    "page",
    sorted(ROOT.glob("*.md")),
    ids=lambda p: p.name,
)
def test_links_of_the_pages_at_the_top_resolve(page: Path):
    for link in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        assert (ROOT / link).exists(), link


def test_first_test_of_ones_own_is_one_that_runs():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    story = ROOT / "tests" / "acceptance" / "test_first_story.py"
    assert f"```python\n{story.read_text('utf-8')}```" in page
    assert f"({story.relative_to(ROOT)})" in page
