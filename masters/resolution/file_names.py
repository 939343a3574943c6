"""Names of files that get something appended, and what file systems can have."""

from __future__ import annotations

from posixpath import splitext

#: Bytes of a name. Hardly any file system takes more.
LONGEST_NAME = 255
#: An index of PostgreSQL holds no more than 2,700 bytes, among them the id of an entry
#: of a folder that is removed.
LONGEST_PATH = 2600

#: What is longer is no suffix, but a name with a period in it.
_LONGEST_SUFFIX = 64


def divide(path: str) -> tuple[str, str]:
    """A path up to the suffix of the file, and the suffix with its period."""
    folder, slash, name = path.rpartition("/")
    stem, suffix = splitext(name)
    if len(suffix.encode()) > _LONGEST_SUFFIX:
        stem, suffix = name, ""
    return folder + slash + stem, suffix


def append(path: str, suffix: str, appended: str) -> str:
    """A path with something appended before its suffix: report (jfk).odt.

    The name is cut before that, if it were too long otherwise.

    Parameters:
        path, suffix: as `divide` gives them.
    """
    end = f" ({appended}){suffix}"
    folder, slash, stem = path.rpartition("/")
    whole = stem.encode()
    most = min(LONGEST_NAME, LONGEST_PATH - len((folder + slash).encode()))
    room = most - len(end.encode())
    if 0 < room < len(whole):
        stem = whole[:room].decode(errors="ignore")
    return folder + slash + stem + end
