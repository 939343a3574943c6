"""What this process was configured with, for code that nobody can hand it to.

A Celery task arrives with the name of a site and nothing else. The
program reads its settings at the top of the stack and leaves here what the
packages below need; a program that passes its own `Directory` around needs none
of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sites.errors import SnaptideError
from sites.site import Directory, Site


class NotConfigured(SnaptideError):
    """This process was not told which sites there are."""

    code = "SNP-010"
    hint = "Call sites.configured.configure(...) first, or run it under snaptide."


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The sites, where Spark runs, and what pushes do by themselves."""

    directory: Directory
    #: `local[*]`, `spark://host:port` or `sc://host:port`
    spark_master: str = "local[*]"
    #: Spark's own settings by their full names
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    #: how long a purge keeps delivered calls
    retention: timedelta = timedelta(days=2)
    #: how long a purge keeps deletes, where rules ask when a row was deleted
    deletes_kept: timedelta = timedelta(days=30)
    #: options of every push, where it is not told otherwise
    push: Mapping[str, Any] = field(default_factory=dict)


_current: Configuration | None = None


def configure(configuration: Configuration) -> None:
    """Leave the configuration for this process; a later call replaces it."""
    global _current
    _current = configuration


def configured() -> Configuration:
    """The configuration of this process.

    Raises:
        NotConfigured: nobody called `configure`.
    """
    if _current is None:
        raise NotConfigured
    return _current


def push_options() -> Mapping[str, Any]:
    """What every push is told; nothing in a process that was not configured."""
    return {} if _current is None else _current.push


def site(name: str) -> Site:
    """A configured site by its name.

    Raises:
        NotConfigured: nobody called `configure`.
        UnknownSite: no site of that name is configured.
    """
    return configured().directory[name]
