"""Pushing in another process, to be killed there, or beside another push."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa

import deferred
from sites import Directory, Site
from tests.let_go import wait_until_let_go
from tests.processes import Elsewhere


def start_push(
    sites: Mapping[str, Site], fault: str = "", *, origin: str = "jfk", **options: Any
) -> Elsewhere:
    """Start a push of a site in a process of its own.

    Parameters:
        fault: what goes wrong there, as SNAPTIDE_FAULT says it.
        **options: of the push.
    """
    urls = {
        name: site.url.render_as_string(hide_password=False)
        for name, site in sites.items()
    }
    return Elsewhere(_push, urls, origin, options, fault=fault)


def end_push(push: Elsewhere, sites: Mapping[str, Site]) -> tuple[int, str]:
    """Wait for a push and for its sessions; its exit status and what it said."""
    ended = push.end()
    wait_until_let_go(sites.values())
    return ended


def push_without_turns(patch: pytest.MonkeyPatch) -> None:
    """Let pushes begin as if their lock were lost, although another one is at work."""
    # By its module's name: the package shows the function of the same name.
    pushing = sys.modules["deferred.pushing.push"]
    patch.setattr(pushing, "TRIED", sa.true().label("turn"))


def _push(
    urls: Mapping[str, str], origin: str, options: Mapping[str, Any]
) -> deferred.PushReport:
    directory = Directory(urls)
    report = deferred.push(directory[origin], **options)
    directory.close()
    return report
