"""Renaming a file of a directory that takes the old name and the new one for the same.

A hard link stands for such a directory: one file, which is found by both names.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from folders import here
from folders.entries import MEANWHILE
from folders.here import InTheWay
from folders.scan import Found


def found(file: Path) -> Found:
    status = file.lstat()
    return Found(kind="file", size=status.st_size, mtime_ns=status.st_mtime_ns)


def test_a_name_that_is_the_same_here_is_told(tmp_path: Path) -> None:
    old = tmp_path / "plan.txt"
    old.write_text("a")
    os.link(old, tmp_path / "Plan.txt")
    with pytest.raises(InTheWay, match=r"same name as plan\.txt: rename it here"):
        here.rename(tmp_path, "plan.txt", found(old), "Plan.txt")
    assert old.read_text() == "a"


def test_another_file_of_that_name_has_come_meanwhile(tmp_path: Path) -> None:
    old, other = tmp_path / "plan.txt", tmp_path / "Plan.txt"
    old.write_text("a")
    other.write_text("b")
    with pytest.raises(InTheWay) as refused:
        here.rename(tmp_path, "plan.txt", found(old), "Plan.txt")
    assert str(refused.value) == MEANWHILE
    other.unlink()
    here.rename(tmp_path, "plan.txt", found(old), "Plan.txt")
    assert other.read_text() == "a"
