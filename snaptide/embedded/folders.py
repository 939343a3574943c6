"""Names the folders in which embedded servers keep their data."""

import os
from pathlib import Path


def state_folder(name: str) -> Path:
    """Return the folder for an embedded server's data, by the system's conventions.

    Root's servers run under another account, which cannot enter root's home, so
    their folder is below /var/lib. This function does not create it.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/snaptide") / name
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "snaptide" / name
