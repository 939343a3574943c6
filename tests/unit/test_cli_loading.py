"""Listing the commands imports none of them; what is listed is what each one says."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import typer

from snaptide.cli import app

ROOT: Any = typer.main.get_command(app)


def test_help_imports_no_library_of_the_work_itself() -> None:
    program = (
        "import sys; from snaptide.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted({n.partition('.')[0] for n in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "In-doubt transactions" in done.stdout
    heavy = {"sqlalchemy", "psycopg", "pydantic", "celery", "pyarrow", "pyspark"}
    assert not heavy & set(done.stderr.split())


def test_a_list_shows_the_first_line_of_each_command() -> None:
    loaded = ROOT.loaded()
    assert list(loaded) == list(ROOT.commands)
    for name, listed in ROOT.commands.items():
        assert loaded[name].help.splitlines()[0] == listed.help, name


def test_an_unknown_command_is_refused_with_the_nearest_name() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "snaptide", "pusch"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "push" in done.stderr
