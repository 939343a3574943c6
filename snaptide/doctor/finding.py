"""What doctor says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is; doctor alone gives it."""

    #: The site cannot take part; nothing else was looked at.
    FATAL = "fatal"
    #: Changes are lost, or work fails.
    ERROR = "error"
    #: Something costs, grows or waits that need not.
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, and what puts it right."""

    site: str
    severity: Severity
    #: the table, snapshot, setting, ... that it is about
    subject: str
    what: str
    todo: str


def warning(site: str, subject: str, what: str, todo: str) -> Finding:
    """A finding of something that costs, grows or waits."""
    return Finding(
        site=site, severity=Severity.WARNING, subject=subject, what=what, todo=todo
    )
