"""The folder of the demo: chosen, claimed, and removed again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from snaptide.demo.errors import FolderNotOurs
from snaptide.embedded import state_folder
from snaptide.embedded.account import server_account

#: Says that everything in the folder may be removed.
_MARK = ".snaptide-demo"


def choose(wanted: Path | None) -> Path:
    """The folder that was asked for, else `.demo` here, if servers can live in it."""
    if wanted is not None:
        return wanted.absolute()
    here = Path.cwd() / ".demo"
    account = server_account(here / "postgresql" / "data")
    if account is not None and not account.may_enter(Path.cwd()):
        return state_folder("demo")
    return here


def claim(folder: Path) -> None:
    """Make the folder the demo's own, empty.

    Raises:
        FolderNotOurs: there is something in it that no demo wrote.
    """
    if folder.exists() and any(folder.iterdir()):
        if not is_ours(folder):
            raise FolderNotOurs(f"{folder} holds something else than a demo.")
        remove(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Root's servers run under another account, which must get through.
    folder.chmod(folder.stat().st_mode | (0o111 if os.geteuid() == 0 else 0o700))
    (folder / _MARK).touch()


def is_ours(folder: Path) -> bool:
    """Whether a demo made this folder."""
    return (folder / _MARK).is_file()


def remove(folder: Path) -> None:
    """Remove the folder of a demo whose servers are stopped."""
    shutil.rmtree(folder)
