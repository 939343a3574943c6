"""What `snaptide status` imports: no library that it has no use for."""

from __future__ import annotations

import subprocess
import sys

from sites import Directory
from snaptide_imports import PACKAGES
from tests.fix_worker import WriteSettings

#: Its modules go to the other stream, so that the command's own output stays whole.
_PROGRAM = """
import sys
from snaptide.cli import app
try:
    app(["--config", sys.argv[1], "status", "jfk"])
except SystemExit as end:
    print(*sys.modules, file=sys.stderr)
    sys.exit(end.code)
"""

#: Of migrations, conditions, schedules by the calendar, retries, tasks and refreshes.
_UNUSED = {
    "adbc_driver_postgresql",
    "alembic",
    "celery",
    "croniter",
    "kombu",
    "mako",
    "pandas",
    "pyarrow",
    "pyspark",
    "redis",
    "sqlglot",
    "tenacity",
}


def test_status_imports_only_what_it_uses(
    sites: Directory, write_settings: WriteSettings
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(write_settings(sites))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "jfk" in done.stdout
    imported = [name.partition(".")[0] for name in done.stderr.split()]
    assert not _UNUSED & set(imported)
    # Of more than seven hundred; packages count, too.
    assert sum(name in PACKAGES for name in imported) < 100
