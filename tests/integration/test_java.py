"""Which Java runs Spark: the machine's own if it can, else the one we bring."""

import os
import subprocess
from pathlib import Path

import pytest

from snapshots.spark.java import java_home

ASKED_BY_SPARK = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine with no Java, nor a launcher from another run."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return monkeypatch


def run(home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def fake_java(file: Path, version: str) -> None:
    """A Java that knows only its version and the home it says it has."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {file.parent.parent}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    file.chmod(0o755)


@pytest.mark.usefixtures("bare_machine")
def test_our_runtime_starts_as_spark_starts_it() -> None:
    home = java_home()
    assert "Runtime Environment" in run(home, ASKED_BY_SPARK, "-version")
    # The other arguments arrive as they were, blanks too.
    seen = run(home, "-Da=b c", ASKED_BY_SPARK, "-XshowSettings:properties", "-version")
    assert "a = b c" in seen


def test_our_launcher_is_kept_when_it_is_the_java_home(
    bare_machine: pytest.MonkeyPatch,
) -> None:
    home = java_home()
    bare_machine.setenv("JAVA_HOME", str(home))
    assert java_home() == home


@pytest.mark.usefixtures("bare_machine")
def test_java_on_the_machine_comes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin" / "java", "21")
    assert f"java.home = {tmp_path}" in run(java_home(), "-version")


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("version", ["1.8", "11"])
def test_old_java_is_passed_over(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path / "bin" / "java", version)
    assert "Runtime Environment" in run(java_home(), "-version")


def test_account_without_a_home_gets_a_launcher_too(
    bare_machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    bare_machine.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    bare_machine.setattr("tempfile.tempdir", str(tmp_path))
    home = java_home()
    assert home.is_relative_to(tmp_path)
    assert os.access(home / "bin" / "java", os.X_OK)
