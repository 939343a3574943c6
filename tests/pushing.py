"""Pushing in another process, to be killed there."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from sites import Site

_PROGRAM = """
import json, os, sys
import deferred
from sites import Directory

directory = Directory(json.loads(os.environ["TEST_SITES"]))
origin = directory[os.environ["TEST_ORIGIN"]]
report = deferred.push(origin, **json.loads(os.environ["TEST_OPTIONS"]))
print(json.dumps([report.transactions, report.errors, report.another_pusher]))
directory.close()
"""


def start_push(
    sites: Mapping[str, Site], fault: str = "", *, origin: str = "jfk", **options: Any
) -> subprocess.Popen[str]:
    """Start a push of a site in a process of its own.

    Parameters:
        fault: what goes wrong there, as SNAPTIDE_FAULT says it.
        **options: of the push.
    """
    urls = {
        name: site.url.render_as_string(hide_password=False)
        for name, site in sites.items()
    }
    environment = {
        **os.environ,
        "TEST_SITES": json.dumps(urls),
        "TEST_ORIGIN": origin,
        "TEST_OPTIONS": json.dumps(options),
    }
    if fault:
        environment["SNAPTIDE_FAULT"] = fault
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end_push(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a push; its exit status and what it said."""
    out, err = process.communicate(timeout=200)
    return process.returncode, out or err
