"""The sections of `snaptide.toml` as models, with the settings that each takes.

Passwords are `SecretStr`s, so that nothing prints them by accident.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
)
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from sites import names
from sites.configured import DAYS_AWAY, EXECUTOR_CONNECTIONS
from snaptide.errors import BadSettings, UnreadableSecret
from snaptide_imports import lazily

if TYPE_CHECKING:
    from kombu.utils import url as kombu
else:
    kombu = lazily("kombu.utils.url")

#: Part of the name of a queue and of what `--json` prints.
SiteName = Annotated[str, StringConstraints(pattern=names.SITE)]

#: Schemes of URLs that lead to Redis.
_REDIS = ("redis", "rediss", "redis+socket")
_DATABASE = re.compile(r"(/\d*)?")

_strict = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class SiteSettings(BaseModel):
    """`[sites.NAME]`: where a database is; the password may stand beside the URL."""

    model_config = _strict

    #: `postgresql://user@host:port/database`; more of libpq's parameters may follow
    #: after `?`, as `sslmode=verify-full`.
    url: SecretStr
    #: The password, if it is not in the URL.
    password: SecretStr | None = None
    #: A file whose content is the password; a relative path begins at the folder of
    #: `snaptide.toml`.
    password_file: Path | None = None

    def address(self, name: str, folder: Path) -> URL:
        """The complete URL.

        Parameters:
            folder: where a relative path begins.

        Raises:
            BadSettings: `url` is not a URL, or the password is given twice.
            UnreadableSecret: the password file cannot be read.
        """
        if self.password is not None and self.password_file is not None:
            raise BadSettings(f"[sites.{name}] has both password and password_file.")
        try:
            url = make_url(self.url.get_secret_value())
        except (ArgumentError, ValueError):
            # A ValueError repeats the text in the place of the port: do not chain it.
            raise BadSettings(
                f"[sites.{name}] url is not of the form postgresql://user@host/database."
            ) from None
        if "@" in (url.host or ""):
            raise BadSettings(
                f"[sites.{name}] url has a second @: in a password, write it as %40, "
                "or give the password as a separate setting, where it is written as "
                "it is."
            )
        password = self._password(name, folder)
        return url if password is None else url.set(password=password)

    def _password(self, name: str, folder: Path) -> str | None:
        if self.password_file is None:
            return None if self.password is None else self.password.get_secret_value()
        path = folder / self.password_file.expanduser()
        try:
            return path.read_text("utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            raise UnreadableSecret(
                f"The password file of site {name} cannot be read: {path} "
                f"({getattr(error, 'strerror', None) or 'not text'}).",
                path=str(path),
            ) from None


def _of_redis(url: SecretStr) -> SecretStr:
    """Refuse a URL that leads Celery to another broker, or that an error would show."""
    text = url.get_secret_value()
    try:
        parts = urlsplit(text)
        right = parts.scheme in _REDIS and parts.port != 0
        kombu.parse_url(text)
    except (ValueError, KeyError):
        right = False
    if not right:
        raise ValueError("not of the form redis://host:port/number") from None
    if parts.scheme != "redis+socket" and not _DATABASE.fullmatch(parts.path):
        raise ValueError("does not end with the number of a database")
    return url


class BrokerSettings(BaseModel):
    """`[broker]`: the Redis that carries tasks."""

    model_config = _strict

    #: `redis://host:port/number`.
    url: Annotated[SecretStr, AfterValidator(_of_redis)]
    #: Seconds after which a task whose worker died goes to another one. A task that
    #: takes longer starts a second time, finds the first one running, and ends.
    visibility_timeout: int = Field(default=300, ge=10)


def _properties(table: Any, prefix: str = "") -> Any:
    """Flatten Spark's settings as Spark reads them: TOML makes `a.b` nested tables."""
    if not isinstance(table, dict):
        return table
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found |= _properties(value, f"{prefix}{name}.")
        else:
            text = str(value)
            found[prefix + name] = text.lower() if isinstance(value, bool) else text
    return found


class SparkSettings(BaseModel):
    """`[spark]`: where the diff runs; `[spark.conf]` takes any setting of Spark's."""

    model_config = _strict

    #: `local[*]` inside the process, `spark://host:port` for a cluster,
    #: `sc://host:port` for Spark Connect.
    master: str = "local[*]"
    #: How many connections to a database the executors of a job open at most, however
    #: many cores the cluster has. A worker runs as many jobs at once as it has threads.
    connections: int = Field(default=EXECUTOR_CONNECTIONS, ge=1)
    #: Any of Spark's own settings, by their full names.
    conf: Annotated[dict[str, str], BeforeValidator(_properties)] = Field(
        default_factory=dict
    )


class ResolutionSettings(BaseModel):
    """`[resolution]`: how conflicts are settled."""

    model_config = _strict

    #: Python functions by name, as `module:function`.
    routines: dict[str, str] = Field(default_factory=dict)
    #: Days for which a master remembers when a row of a table was deleted, if a rule
    #: asks for it (`informix_timestamp`); a purge may forget older deletes.
    deletes_kept_days: float = Field(default=30, ge=0)

    @property
    def deletes_kept(self) -> timedelta:
        """`deletes_kept_days` as a timedelta."""
        return timedelta(days=self.deletes_kept_days)


class ProcedureSettings(BaseModel):
    """`[procedures]`: the functions that calls of procedures run on this machine."""

    model_config = _strict

    #: Python functions by name, as `module:function`; a push by this machine runs them
    #: in its transaction at the destination.
    routines: dict[str, str] = Field(default_factory=dict)


def _of_the_web(url: SecretStr) -> SecretStr:
    """Refuse what is no address of a server; the error does not show it."""
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not of the form https://host/path")
    return url


class NotificationSettings(BaseModel):
    """`[notification]`: who hears of what goes wrong."""

    model_config = _strict

    #: Python functions by name, as `module:function`: a push calls them for conflicts
    #: that no rule settled.
    hooks: dict[str, str] = Field(default_factory=dict)
    #: A program and its arguments: `snaptide notify` runs it for each thing that has
    #: gone wrong, which it gets as JSON on its input.
    command: list[str] = Field(default_factory=list)
    #: An address to which `snaptide notify` posts the same JSON.
    webhook: Annotated[SecretStr, AfterValidator(_of_the_web)] | None = None


class WorkerSettings(BaseModel):
    """`[worker]`: how a worker runs, where its command line does not say."""

    model_config = _strict

    #: How a worker runs several tasks; prefork is not offered, because a JVM does not
    #: survive fork.
    pool: Literal["threads", "solo"] = "threads"
    #: How many tasks run at once, with threads.
    concurrency: int = Field(default=4, ge=1)
    #: How much services say in their log.
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    #: How services write their log: as text, or as one JSON object a line.
    log_format: Literal["text", "json"] = "text"
    #: Start Spark when the worker is ready, if one of its sites has snapshots. Without
    #: this, Spark starts with the first refresh, which takes seconds longer.
    warm: bool = True
    #: Push after commits (by notification), not only on schedules.
    listen: bool = True
    #: Length of a window in seconds: after the first push, at most one per window.
    debounce: float = Field(default=0.2, ge=0.01, le=60)
    #: Seconds between two looks at a queue without a notification.
    poll: float = Field(default=30, ge=1)


class QueueSettings(BaseModel):
    """`[queue]`: how long a site keeps calls that are delivered."""

    model_config = _strict

    #: Days for which a site keeps delivered calls. A master restored from a backup no
    #: older than that gets them again, and `snaptide history` can show them.
    retention_days: float = Field(default=2, ge=0)

    @property
    def retention(self) -> timedelta:
        """`retention_days` as a timedelta."""
        return timedelta(days=self.retention_days)


class NumberSettings(BaseModel):
    """`[numbers]`: the numbers that sites lease from their masters."""

    model_config = _strict

    #: Days for which a site may be away from its master: a lease has twice the numbers
    #: that it uses in that time, but at least 1,000.
    days_away: float = Field(default=DAYS_AWAY, gt=0)
