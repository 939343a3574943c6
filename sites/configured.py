"""The configuration of this process, for code that gets it from no caller.

A Celery task arrives with the name of a site and nothing else. The program reads its
settings at the top of the stack and stores here the part that the packages below need.
A program that passes its own `Directory` around needs none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sites.errors import SnaptideError
from sites.sessions.site import Directory, Site


class NotConfigured(SnaptideError):
    """This process has no configured sites."""

    code = "SNP-010"
    hint = "Call sites.configured.configure(...) first, or start it with snaptide."


#: How many connections to a database the executors of a Spark job open at most, where
#: no setting says otherwise.
EXECUTOR_CONNECTIONS = 16

#: Days for which sites lease numbers ahead, where no setting says otherwise.
DAYS_AWAY = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The sites, the address of Spark, and defaults for pushes and purges."""

    directory: Directory
    #: `local[*]`, `spark://host:port` or `sc://host:port`
    spark_master: str = "local[*]"
    #: Spark's own settings by their full names
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    #: how many connections to a database the executors of a Spark job open at most
    executor_connections: int = EXECUTOR_CONNECTIONS
    #: how long a purge keeps delivered calls
    retention: timedelta = timedelta(days=2)
    #: how long a purge keeps deletes, if rules ask when a row was deleted
    deletes_kept: timedelta = timedelta(days=30)
    #: default options of every push
    push: Mapping[str, Any] = field(default_factory=dict)
    #: how many days a site may be away, for which it leases numbers ahead
    days_away: float = DAYS_AWAY


_current: Configuration | None = None


def configure(configuration: Configuration) -> None:
    """Set the configuration of this process; a later call replaces it."""
    global _current
    _current = configuration


def configured() -> Configuration:
    """The configuration of this process.

    Raises:
        NotConfigured: `configure` was not called.
    """
    if _current is None:
        raise NotConfigured
    return _current


def push_options() -> Mapping[str, Any]:
    """The default options of every push; none in a process without configuration."""
    return {} if _current is None else _current.push


def executor_connections() -> int:
    """How many connections to a database the executors of a Spark job open at most.

    The default in a process without settings.
    """
    if _current is None:
        return EXECUTOR_CONNECTIONS
    return _current.executor_connections


def days_away() -> float:
    """How many days a site may be away; the default in a process without settings."""
    return DAYS_AWAY if _current is None else _current.days_away


def site(name: str) -> Site:
    """A configured site by its name.

    Raises:
        NotConfigured: `configure` was not called.
        UnknownSite: no site of that name is configured.
    """
    return configured().directory[name]
