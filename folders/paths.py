"""Which paths a folder can have: those that mean one place on every system."""

from __future__ import annotations

import re
import unicodedata

from masters.resolution.file_names import LONGEST_NAME, LONGEST_PATH

#: Why names are left alone that are not equal, but `folded` are.
ALIKE = "another name differs only in case or accents"

#: What the names of our own files in a directory begin with; no entry has such a name.
OURS = ".snaptide-"

#: What the names of files begin with that are not whole yet.
UNFINISHED = f"{OURS}new-"

_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"\\|?*]')


def why_not(path: str) -> str | None:
    """Why a folder cannot have an entry with this path; None if it can.

    Parameters:
        path: relative to the folder, with slashes.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > LONGEST_PATH:
        return f"its path is longer than {LONGEST_PATH} bytes"
    if path.startswith("/"):
        return "its path is not within the folder"
    reasons = (_why_not_named(name) for name in path.split("/"))
    return next((reason for reason in reasons if reason), None)


def _why_not_named(name: str) -> str | None:
    if name in ("", ".", ".."):
        return "its path is not within the folder"
    if len(name.encode()) > LONGEST_NAME:
        return f"its name is longer than {LONGEST_NAME} bytes"
    if name.startswith(OURS):
        return f"names that begin with {OURS} are reserved for Snaptide"
    if _FORBIDDEN.search(name) or name[-1] in " .":
        return "its name has characters that not every system can have"
    if _DEVICE.fullmatch(name):
        return "its name is that of a device on Windows"
    return None


def folded(path: str) -> str:
    """A text that is equal for paths which some systems take for the same one."""
    if path.isascii():
        return path.lower()
    # What is folded may be composed no more: a capital iota with two accents becomes
    # another text than the small one, which is a single character.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def shown(path: str) -> str:
    """A path as it can be printed and stored, also if it is not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
