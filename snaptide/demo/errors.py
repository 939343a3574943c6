"""Errors of the demo."""

from __future__ import annotations

from sites.errors import SnaptideError


class DemoFailed(SnaptideError):
    """A step of the demo failed."""

    code = "SNP-480"
    hint = "The demo's folder is kept: look at the logs in it."


class FolderNotOurs(SnaptideError):
    """The folder holds files that the demo did not write."""

    code = "SNP-481"
    hint = "Give an empty or new folder with --folder; the demo empties its own."


def require(holds: object, otherwise: str) -> None:
    """Check an expectation of a step.

    Raises:
        DemoFailed: `holds` is false; `otherwise` is the message.
    """
    if not holds:
        raise DemoFailed(otherwise)
