"""An application's folder with the name of a package of ours: said, not a riddle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from snaptide.doctor import imports
from snaptide_imports import PACKAGES


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program that is started in a folder."""
    (folder / "program.py").write_text(code)
    return subprocess.run(
        [sys.executable, str(folder / "program.py")], capture_output=True, text=True
    )


def package(folder: Path, name: str) -> Path:
    """Make a package of an application's."""
    (folder / name).mkdir()
    file = folder / name / "__init__.py"
    file.touch()
    return file


@pytest.mark.parametrize("name", ["masters", "deferred", "snapshots", "groups"])
def test_sites_of_an_application_is_named_at_once(tmp_path: Path, name: str) -> None:
    file = package(tmp_path, "sites")
    done = python(tmp_path, f"import {name}")
    said = done.stderr.splitlines()[-1]
    assert f"needs its own package 'sites', but Python finds {file} first" in said
    assert "Rename that folder or module" in said


def test_module_hides_a_package_too(tmp_path: Path) -> None:
    file = tmp_path / "sites.py"
    file.touch()
    done = python(tmp_path, "import deferred")
    assert f"but Python finds {file} first" in done.stderr.splitlines()[-1]


def test_another_package_is_named_when_it_is_needed(tmp_path: Path) -> None:
    file = package(tmp_path, "masters")
    done = python(tmp_path, "import deferred; deferred.push")
    said = done.stderr.splitlines()[-1]
    assert f"its own package 'masters', but Python finds {file} first" in said


def test_package_that_is_not_needed_is_in_nobodys_way(tmp_path: Path) -> None:
    package(tmp_path, "groups")
    done = python(tmp_path, "import deferred; deferred.push")
    assert done.returncode == 0, done.stderr


def test_folder_that_is_no_package_is_in_nobodys_way(tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").touch()
    done = python(tmp_path, "import deferred, snapshots; deferred.push")
    assert done.returncode == 0, done.stderr


def test_doctor_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(imports.check()) == []
    file = package(tmp_path, "masters")
    [found] = imports.check()
    assert found.subject == "package masters"
    assert str(file) in found.what
