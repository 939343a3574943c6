"""Where embedded servers keep what they must not lose."""

import os
from pathlib import Path


def state_folder(name: str) -> Path:
    """Return the folder for an embedded server's data, by the system's custom.

    Root's servers run under another account, which cannot enter root's home: their
    place is below /var/lib. It is not created here.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/snaptide") / name
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "snaptide" / name
