"""An installation without extras works, and names the extra that something needs."""

import subprocess
import sys

import pytest

from sites import extras

#: Has the packages of all extras be missing, as in an installation without them.
_WITHOUT = f"""
import sys
sys.modules.update(dict.fromkeys({[p for ps in extras._PACKAGES.values() for p in ps]}))
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT + code],
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
