"""An installation without extras works, and names the extra that something needs."""

import subprocess
import sys

import pytest

from sites import extras

#: Has the packages of some extras be missing, as in an installation without them.
_WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({}))
"""


def python(code: str, *without: str) -> subprocess.CompletedProcess[str]:
    """Run a program without the packages of some extras, or else of all."""
    missing = [p for e in without or extras._PACKAGES for p in extras._PACKAGES[e]]
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(missing) + code],
        capture_output=True,
        text=True,
        check=False,
    )


def test_all_but_spark_and_demo_is_imported_without_extras() -> None:
    found = python(
        "import deferred, groups, masters, sites, snapshots, synchronous\n"
        "import deferred.tasks, groups.tasks, snapshots.tasks\n"
        "import snaptide.application, snaptide.doctor, snaptide.worker, snaptide.beat\n"
        "from snaptide.cli.commands import Commands\n"
        "from importlib import import_module\n"
        "for part in Commands.parts.values():\n"
        "    [import_module('.' + m, 'snaptide.cli') for m in part.modules]\n"
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("extra", sorted(extras._PACKAGES))
def test_missing_extra_is_named(extra: str) -> None:
    found = python(
        "from sites import extras\n"
        "try:\n"
        f"    extras.require({extra!r})\n"
        "except extras.MissingExtra as error:\n"
        "    print(error.message, error.hint)\n"
    )
    assert f"comes with snaptide[{extra}]. pip install 'snaptide[{extra}]'" in (
        found.stdout
    ), found.stderr


def test_module_of_an_extra_names_it_when_it_is_used() -> None:
    found = python(
        "from sites.transfer import arrow\n"
        "try:\n"
        "    arrow.schema(['integer'])\n"
        "except arrow.SnaptideError as error:\n"
        "    print(error.hint)\n"
    )
    assert found.stdout == "pip install 'snaptide[spark]'\n", found.stderr


def test_spark_connect_without_its_libraries_is_refused() -> None:
    found = python(
        "from snapshots.spark.session import session\n"
        "try:\n"
        "    session('sc://127.0.0.1:1')\n"
        "except Exception as error:\n"
        "    print(error.hint)\n",
        "connect",
    )
    assert found.stdout == "pip install 'snaptide[connect]'\n", found.stderr
