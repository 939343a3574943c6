"""The browser of the console's tests: Chromium, as the system has it.

`python -m tests.chromium` installs it where it is missing and that is allowed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

#: Names of the program, and its place where it has no name.
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
MISSING = (
    "The console's tests need a browser: install the package chromium "
    "(on Debian, as root: apt-get install --no-install-recommends chromium)."
)
_INSTALL = (
    ["apt-get", "update", "-qq"],
    ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", "chromium"],
)


def find() -> str | None:
    """The path of the program; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def provide() -> str | None:
    """The path of the program, which is installed by root where there is none."""
    if (found := find()) or os.geteuid() != 0 or not shutil.which("apt-get"):
        return found
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in _INSTALL:
        done = subprocess.run(
            command,
            env=quiet,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            sys.stderr.write(done.stdout)
            break
    return find()


if __name__ == "__main__" and provide() is None:
    sys.exit(MISSING)
