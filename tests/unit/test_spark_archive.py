"""The archive for executors: written twice at once, and carried by Spark Connect."""

import os
import tarfile
from pathlib import Path

import pytest

from snapshots.spark import archive


def test_two_that_write_it_at_once_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.py").write_text("x = 1\n")
    some = [(tmp_path / "some.py", "some.py")] * 2
    monkeypatch.setattr(archive, "_files", lambda: iter(some))
    path = tmp_path / "env.tar.gz"

    def another(done: int, total: int | None, unit: str) -> None:
        if done == 1:
            monkeypatch.setattr(os, "getpid", lambda: 1)
            archive.write(path)

    assert archive.write(path, progress=another).files == 2
    with tarfile.open(path) as made:
        assert made.getnames() == ["some.py", "some.py", "python"]
    assert {one.name for one in tmp_path.iterdir()} == {"some.py", "env.tar.gz"}


def test_a_session_starts_python_from_the_archive() -> None:
    given = {
        "spark.archives": "/a.tar.gz#there",
        "spark.executorEnv.PYTHONPATH": "there",
    }
    python = {"spark.sql.execution.pyspark.python": "there/python"}
    assert archive.of_session(given) == (["/a.tar.gz#there"], python)
    own = {"spark.sql.execution.pyspark.python": "/opt/python"}
    assert archive.of_session(given | own) == (["/a.tar.gz#there"], own)
    assert archive.of_session(own) == ([], own)


def test_it_has_what_tasks_run_and_no_more() -> None:
    carried = {Path(name) for _, name in archive._files()}
    assert {Path("snapshots/__init__.py"), Path("pyarrow/__init__.py")} <= carried
    assert not {one for one in carried if "tests" in one.parts}
    assert not {one for one in carried if one.suffix in {".h", ".pyi", ".pyx"}}
    assert not {one.parts[0] for one in carried} & {"celery", "pyspark", "typer"}
