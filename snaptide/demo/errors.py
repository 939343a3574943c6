"""Errors of the demo."""

from __future__ import annotations

from sites.errors import SnaptideError


class DemoFailed(SnaptideError):
    """A step of the demo did not end as it should have."""

    code = "SNP-480"
    hint = "The demo's folder is kept: look at the logs in it."


class FolderNotOurs(SnaptideError):
    """The folder holds files that no demo wrote."""

    code = "SNP-481"
    hint = "Give an empty or a new folder with --folder; the demo empties its own."


def require(holds: object, otherwise: str) -> None:
    """Check an expectation of a step.

    Raises:
        DemoFailed: `holds` is false; `otherwise` is the message.
    """
    if not holds:
        raise DemoFailed(otherwise)
