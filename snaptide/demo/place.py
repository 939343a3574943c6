"""Chooses, claims and removes the folder of the demo."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from snaptide.demo.errors import FolderNotOurs
from snaptide.embedded import state_folder
from snaptide.embedded.account import server_account

#: The file that marks a folder whose contents the demo may remove.
_MARK = ".snaptide-demo"


def choose(wanted: Path | None) -> Path:
    """The wanted folder, else `.demo` here, or a state folder if servers need one.

    Root's servers run under another account, which may not be able to enter `.demo`.
    """
    if wanted is not None:
        return wanted.absolute()
    here = Path.cwd() / ".demo"
    account = server_account(here / "postgresql" / "data")
    if account is not None and not account.may_enter(Path.cwd()):
        return state_folder("demo")
    return here


def claim(folder: Path) -> None:
    """Create the folder, or empty that of an earlier demo, and mark it as ours.

    Raises:
        FolderNotOurs: the folder holds files that no demo wrote.
    """
    if folder.exists() and any(folder.iterdir()):
        if not is_ours(folder):
            raise FolderNotOurs(f"{folder} holds files that are not a demo's.")
        remove(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Root's servers run under another account, which must be able to enter.
    folder.chmod(folder.stat().st_mode | (0o111 if os.geteuid() == 0 else 0o700))
    (folder / _MARK).touch()


def is_ours(folder: Path) -> bool:
    """Whether a demo made this folder."""
    return (folder / _MARK).is_file()


def remove(folder: Path) -> None:
    """Remove the folder of a demo whose servers are stopped."""
    shutil.rmtree(folder)
